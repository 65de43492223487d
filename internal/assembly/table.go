// Package assembly puts the chunks of outputs together. A Table holds the outputs in flight within bounds and says which
// of them ended; it knows no clock, no configuration and nobody to tell, so that each step of it is a plain function of
// what came before. The rules are those of docs/contract.md.
package assembly // import "github.com/otel-rawoutput/rawoutput/internal/assembly"

import (
	"cmp"
	"container/list"
	"slices"
	"time"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// Limits bound a Table. Each must be above 0.
type Limits struct {
	Outputs     int   // outputs in flight
	Bytes       int64 // what they take, and what the caller holds of the records that it made of them (Hold)
	OutputBytes int64 // what one of them takes
}

// Table holds the outputs in flight. It is not safe for concurrent use.
type Table struct {
	limits   Limits
	outputs  map[outputKey]*output
	requests map[requestKey][]*output
	origins  map[Source]*origin // the latest of each source
	recent   *list.List         // of *output, the least recently updated first
	order    uint64
	bytes    int64
	held     int64
	ended    []Ended
	empty    int
}

// NewTable returns an empty table.
func NewTable(limits Limits) *Table {
	return &Table{
		limits:   limits,
		outputs:  map[outputKey]*output{},
		requests: map[requestKey][]*output{},
		origins:  map[Source]*origin{},
		recent:   list.New(),
	}
}

// Len returns how many outputs are in flight.
func (t *Table) Len() int { return len(t.outputs) }

// Bytes returns what the outputs in flight take.
func (t *Table) Bytes() int64 { return t.bytes }

// Hold says how many bytes of records the caller holds; they count into Limits.Bytes from the next chunk on, or from a call
// of MakeRoom.
func (t *Table) Hold(bytes int64) { t.held = bytes }

// Cause is what ended an output.
type Cause uint8

// The causes.
const (
	Finished   Cause = iota // its final chunk
	RequestEnd              // the server said that its request ended
	Evicted                 // a limit
	Idle                    // no chunk for too long
	Shutdown
)

// Ended is an output that ended.
type Ended struct {
	Cause Cause
	// OfSender says that a chunk or a request end of the output's own source ended it, and not the pressure of others or
	// the clock.
	OfSender bool

	output     *output
	reason     string
	finishedAt uint64
}

// TakeEnded returns the outputs that ended since the last call and are to be written, in the order in which they ended;
// and how many others ended that have nothing to write.
func (t *Table) TakeEnded() (ended []Ended, empty int) {
	ended, empty = t.ended, t.empty
	t.ended, t.empty = nil, 0
	return ended, empty
}

// Add adds a chunk record. now is the Collector's time.
func (t *Table) Add(from *From, trace signal.Trace, c *chunk.Chunk, now time.Time) {
	key := outputKey{requestKey{from.Source, c.RequestID}, c.OutputIndex}
	o, known := t.outputs[key]
	if !known {
		o = t.begin(key, from, trace, c)
	}
	t.order++
	o.order, o.touched = t.order, now
	t.recent.MoveToBack(o.element)

	before := o.size
	o.absorb(c)
	t.bytes += o.size - before

	switch {
	case c.IsFinal:
		t.end(o, Ended{Cause: Finished, OfSender: true, finishedAt: c.Time})
	case o.size > t.limits.OutputBytes:
		t.end(o, Ended{Cause: Evicted, OfSender: true, reason: contract.ReasonEvicted, finishedAt: c.Time})
	}
	t.MakeRoom(c.Time)
}

// begin adds an output. Where that is one too many, another is evicted, at the time of the chunk that it begins with.
func (t *Table) begin(key outputKey, from *From, trace signal.Trace, c *chunk.Chunk) *output {
	siblings := t.requests[key.requestKey]
	o := &output{key: key, origin: t.retain(from), trace: trace, startedAt: c.StartedAt, slot: len(siblings)}
	o.element = t.recent.PushBack(o)
	o.size = o.measure()
	t.bytes += o.size
	t.outputs[key] = o
	t.requests[key.requestKey] = append(siblings, o)
	if c.IsFinal && len(c.Frames) == 1 {
		return o // it ends with its first chunk, and needs no room
	}
	for len(t.outputs) > t.limits.Outputs {
		t.evictLeastRecent(c.StartedAt)
	}
	return o
}

// MakeRoom evicts outputs until the rest takes no more than it may. at is the end that their records have, in nanoseconds
// since 1970.
func (t *Table) MakeRoom(at uint64) {
	for t.bytes+t.held > t.limits.Bytes && t.recent.Len() > 0 {
		t.evictLeastRecent(at)
	}
}

func (t *Table) evictLeastRecent(at uint64) {
	t.end(t.recent.Front().Value.(*output), Ended{Cause: Evicted, reason: contract.ReasonEvicted, finishedAt: at})
}

// EndRequest ends the outputs of a request that began no later than its end.
func (t *Table) EndRequest(source Source, e *chunk.End) {
	outputs := slices.Clone(t.requests[requestKey{source, e.RequestID}])
	slices.SortFunc(outputs, func(a, b *output) int { return cmp.Compare(a.order, b.order) })
	for _, o := range outputs {
		if o.startedAt <= e.Time {
			t.end(o, Ended{Cause: RequestEnd, OfSender: true, reason: e.Reason, finishedAt: e.Time})
		}
	}
}

// Expire ends the outputs whose last chunk came at since or before. at is the end that their records have, in nanoseconds
// since 1970.
func (t *Table) Expire(since time.Time, at uint64) {
	for t.recent.Len() > 0 {
		o := t.recent.Front().Value.(*output)
		if o.touched.After(since) {
			return
		}
		t.end(o, Ended{Cause: Idle, reason: contract.ReasonIdleTimeout, finishedAt: at})
	}
}

// LeastRecent returns when the least recently updated output was updated.
func (t *Table) LeastRecent() (touched time.Time, ok bool) {
	if t.recent.Len() == 0 {
		return time.Time{}, false
	}
	return t.recent.Front().Value.(*output).touched, true
}

// Flush ends up to most outputs, the least recently updated first, and reports whether others are left. at is the end
// that their records have, in nanoseconds since 1970.
func (t *Table) Flush(most int, at uint64) (more bool) {
	for ; most > 0 && t.recent.Len() > 0; most-- {
		o := t.recent.Front().Value.(*output)
		t.end(o, Ended{Cause: Shutdown, reason: contract.ReasonShutdown, finishedAt: at})
	}
	return t.recent.Len() > 0
}

// end takes the output out of the table. An output with nothing in it is worth a record only if its final chunk came.
func (t *Table) end(o *output, e Ended) {
	t.recent.Remove(o.element)
	delete(t.outputs, o.key)
	t.forget(o)
	t.bytes -= o.size
	t.release(o.key.source, o.origin)
	if e.Cause != Finished && o.isEmpty() {
		t.empty++
		return
	}
	e.output = o
	t.ended = append(t.ended, e)
}

// forget takes the output out of its request's: the last one takes its place.
func (t *Table) forget(o *output) {
	siblings := t.requests[o.key.requestKey]
	last := len(siblings) - 1
	if last == 0 {
		delete(t.requests, o.key.requestKey)
		return
	}
	siblings[o.slot] = siblings[last]
	siblings[o.slot].slot = o.slot
	siblings[last] = nil
	t.requests[o.key.requestKey] = siblings[:last]
}

// Record returns the record of the output.
func (e *Ended) Record() record.Record {
	r := e.output.record()
	r.FinishedAt = e.finishedAt
	if e.Cause != Finished {
		r.Partial, r.EndReason, r.HasEndReason = true, e.reason, true
	}
	return r
}

// Scope is the resource and scope of the output's first chunk, by identity the same for outputs that share it.
func (e *Ended) Scope() *signal.Scope { return &e.output.origin.scope }

// Trace is the place in a trace of the output's first chunk.
func (e *Ended) Trace() signal.Trace { return e.output.trace }

// Size is what it takes as long as it is kept, its Scope aside.
func (e *Ended) Size() int64 { return e.output.size + int64(unsafe.Sizeof(*e)) + int64(len(e.reason)) }

// ScopeSize is what its Scope takes.
func (e *Ended) ScopeSize() int64 { return e.output.origin.size }

// PutOthers puts the attributes that stay on the record, other than the contract's, into dst, which must be empty.
func (e *Ended) PutOthers(dst pcommon.Map) { e.output.others.copyTo(dst) }
