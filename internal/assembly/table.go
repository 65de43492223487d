// Package assembly puts the chunks of outputs together. A Table holds the outputs in flight within bounds and says which
// of them ended; it knows no clock, no configuration and nobody to tell, so that each step of it is a plain function of
// what came before. The rules are those of docs/contract.md.
package assembly // import "github.com/otel-rawoutput/rawoutput/internal/assembly"

import (
	"container/list"
	"time"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// Options are those of a Table. Each number must be above 0, but for Remembered.
type Options struct {
	Outputs     int   // outputs in flight, and request ends that wait
	Bytes       int64 // what they take, and what the caller holds of the records that it made of them (Hold)
	OutputBytes int64 // what one of them takes
	Remembered  int   // outputs that ended
	FrameTimes  bool  // keep when each frame came
}

// Table holds the outputs in flight, and the request ends that wait for chunks. It is not safe for concurrent use.
type Table struct {
	options  Options
	outputs  map[outputKey]*output
	requests map[requestKey][]*output
	ends     map[requestKey]*requestEnd
	origins  map[Source]*origin // the latest of each source
	recent   *list.List         // of holder, the least recently updated first
	waits    *list.List         // of holder, the one that waits for missing chunks longest first
	past     memory
	losses   losses
	order    uint64
	bytes    int64
	held     int64
	ended    []Ended
	tally    Tally
}

// NewTable returns an empty table.
func NewTable(options Options) *Table {
	return &Table{
		options:  options,
		outputs:  map[outputKey]*output{},
		requests: map[requestKey][]*output{},
		ends:     map[requestKey]*requestEnd{},
		origins:  map[Source]*origin{},
		recent:   list.New(),
		waits:    list.New(),
		past:     newMemory(options.Remembered),
		losses:   newLosses(),
	}
}

// Len returns how many outputs are in flight.
func (t *Table) Len() int { return len(t.outputs) }

// Bytes returns what the table holds, but for what it remembers of outputs that ended.
func (t *Table) Bytes() int64 { return t.bytes }

// Hold says how many bytes of records the caller holds; they count into Options.Bytes from the next chunk on, or from a call
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
	ChunksMissing // its final chunk came, and others did not
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

// Tally is what happened beside outputs that are to be written.
type Tally struct {
	EmptyOutputs   int   // outputs that ended with nothing to write
	MissingChunks  int64 // chunks known to be missing of the outputs that ended
	EmitterDropped int64 // chunks that emitters say to have dropped
}

// TakeEnded returns the outputs that ended since the last call and are to be written, in the order in which they ended;
// and what else happened since.
func (t *Table) TakeEnded() ([]Ended, Tally) {
	ended, tally := t.ended, t.tally
	t.ended, t.tally = nil, Tally{}
	return ended, tally
}

// Add adds a chunk record, and says what became of it. now is the Collector's time.
func (t *Table) Add(from *From, trace signal.Trace, c *chunk.Chunk, now time.Time) Outcome {
	t.tally.EmitterDropped += t.losses.since(from.Source, c.EmitterDropped)
	key := outputKey{requestKey{from.Source, c.RequestID}, c.OutputIndex}
	o, inFlight := t.outputs[key]
	if !inFlight {
		before := t.recallFor(key, c)
		if before.isLate(c) {
			return Late
		}
		o = t.begin(key, from, trace, c, before, now)
	}
	first, outcome := o.judge(c)
	if outcome != Accepted {
		return outcome
	}
	if first < o.first {
		t.beginAt(o, first, from, trace, c)
	}
	t.order++
	o.order = t.order
	t.touch(&o.held, now)
	o.take(c, first)
	t.resize(&o.held, o.measure())
	t.settle(o, c.Time, now)
	return Accepted
}

// settle ends the output, has it wait, or leaves it as it is, after a chunk of that time.
func (t *Table) settle(o *output, at uint64, now time.Time) {
	switch {
	case o.isFinished():
		t.end(o, Ended{Cause: Finished, OfSender: true, finishedAt: o.finalAt})
	case o.size > t.options.OutputBytes || o.end() > contract.MaxIndex:
		t.end(o, Ended{Cause: Evicted, OfSender: true, reason: contract.ReasonEvicted, finishedAt: at})
	default:
		if o.finalEnd != 0 {
			t.wait(o, now)
		}
		t.progress(o)
	}
	t.MakeRoom(at)
}

// recallFor returns what is remembered of the output that ended before a numbered chunk of it.
func (t *Table) recallFor(key outputKey, c *chunk.Chunk) past {
	if !c.Numbered {
		return past{} // it begins a new output whatever was before
	}
	return t.past.recall(key)
}

// begin adds an output. Where that is one too many, another is evicted, at the time of the chunk that it begins with.
func (t *Table) begin(key outputKey, from *From, trace signal.Trace, c *chunk.Chunk, before past, now time.Time) *output {
	o := &output{key: key, trace: trace, startedAt: c.StartedAt, keepsTimes: t.options.FrameTimes, earlier: before.spans()}
	if before.continuedBy(c) {
		o.base, o.next = before.next, before.next
	}
	o.first = o.next
	if c.Numbered {
		o.first = c.Index
	}
	o.origin = t.retain(from)
	if !c.IsFinal || len(c.Frames) > 1 || o.first > o.next { // else it ends with its first chunk, and needs no room
		t.evictDownTo(t.options.Outputs-1, c.StartedAt)
	}
	o.size = o.measure()
	t.insert(o, now)
	t.outputs[key] = o
	siblings := t.requests[key.requestKey]
	o.slot = len(siblings)
	t.requests[key.requestKey] = append(siblings, o)
	t.await(o)
	return o
}

// beginAt makes a chunk record the first of an output that began with a later one.
func (t *Table) beginAt(o *output, first uint32, from *From, trace signal.Trace, c *chunk.Chunk) {
	origin := t.retain(from)
	t.release(o.key.source, o.origin)
	o.first, o.origin, o.trace, o.startedAt = first, origin, trace, c.StartedAt
	t.await(o)
}

// MakeRoom evicts until the rest takes no more bytes than it may. at is the end that the records of outputs have, in
// nanoseconds since 1970.
func (t *Table) MakeRoom(at uint64) {
	for t.bytes+t.held > t.options.Bytes && t.recent.Len() > 0 {
		t.evictLeastRecent(at)
	}
}

// evictDownTo evicts until no more than so many are held.
func (t *Table) evictDownTo(most int, at uint64) {
	for t.recent.Len() > most {
		t.evictLeastRecent(at)
	}
}

func (t *Table) evictLeastRecent(at uint64) {
	t.conclude(t.leastRecent(), Ended{Cause: Evicted, reason: contract.ReasonEvicted, finishedAt: at})
}

// conclude ends an output, as e says, or has a request end take effect.
func (t *Table) conclude(h holder, e Ended) {
	switch h := h.(type) {
	case *output:
		if w := h.awaitedBy; w != nil && (e.Cause == Idle || h.next >= w.counted(h.key.index)) {
			t.endBy(w, h, e.OfSender) // it waits only for others, or for too long
			return
		}
		t.end(h, e)
	case *requestEnd:
		t.takeEffect(h, e.OfSender)
	}
}

func (t *Table) leastRecent() holder { return t.recent.Front().Value.(holder) }

// Expire ends the outputs whose last chunk came at since or before, and the waits of request ends that are as old. at is
// the end that their records have, in nanoseconds since 1970.
func (t *Table) Expire(since time.Time, at uint64) {
	for t.recent.Len() > 0 {
		h := t.leastRecent()
		if h.hold().touched.After(since) {
			return
		}
		t.conclude(h, Ended{Cause: Idle, reason: contract.ReasonIdleTimeout, finishedAt: at})
	}
}

// GiveUpWaiting ends the waits for missing chunks that began at since or before: of outputs whose final chunk came, and of
// request ends.
func (t *Table) GiveUpWaiting(since time.Time) {
	for t.waits.Len() > 0 {
		h := t.waits.Front().Value.(holder)
		if h.hold().waitingSince.After(since) {
			return
		}
		t.conclude(h, Ended{Cause: ChunksMissing})
	}
}

// LeastRecent returns when the least recently updated output, or request end, was updated.
func (t *Table) LeastRecent() (touched time.Time, ok bool) {
	if t.recent.Len() == 0 {
		return time.Time{}, false
	}
	return t.leastRecent().hold().touched, true
}

// LongestWait returns since when the longest wait for missing chunks lasts.
func (t *Table) LongestWait() (since time.Time, ok bool) {
	if t.waits.Len() == 0 {
		return time.Time{}, false
	}
	return t.waits.Front().Value.(holder).hold().waitingSince, true
}

// Flush ends up to most outputs and waits of request ends, and reports whether others are left: first who waits, as the
// server has said how they end, then the least recently updated. at is the end that the records of the others have, in
// nanoseconds since 1970.
func (t *Table) Flush(most int, at uint64) (more bool) {
	for ; most > 0 && t.recent.Len() > 0; most-- {
		h := t.leastRecent()
		if t.waits.Len() > 0 {
			h = t.waits.Front().Value.(holder)
		}
		t.conclude(h, Ended{Cause: Shutdown, reason: contract.ReasonShutdown, finishedAt: at})
	}
	return t.recent.Len() > 0
}

// end takes the output out of the table. An output with nothing in it is worth a record only if its final chunk came.
func (t *Table) end(o *output, e Ended) {
	if o.finalEnd != 0 && e.Cause != Finished {
		e.Cause, e.reason, e.finishedAt = ChunksMissing, contract.ReasonChunksMissing, o.finalAt
	}
	t.remove(&o.held)
	delete(t.outputs, o.key)
	t.forget(o)
	t.release(o.key.source, o.origin)
	o.closeUp()
	o.size = o.measure()
	t.tally.MissingChunks += int64(o.missing())
	t.past.remember(o.key, o.past(&e))
	if o.finalEnd == 0 && o.isEmpty() {
		t.tally.EmptyOutputs++
	} else {
		e.output = o
		t.ended = append(t.ended, e)
	}
	t.progress(o)
	o.awaitedBy = nil // nobody counts it once it took effect
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

// Fill makes r the record of the output. It uses the lists of frames and of token ids that were in it again.
func (e *Ended) Fill(r *record.Record) {
	e.output.fill(r)
	r.FinishedAt = e.finishedAt
	if e.Cause != Finished {
		r.Partial, r.EndReason, r.HasEndReason = true, e.reason, true
	}
}

// FramesConsistent reports what the record will say.
func (e *Ended) FramesConsistent() bool {
	e.output.check()
	return e.output.consistent
}

// Scope is the resource and scope of the output's first chunk, by identity the same for outputs that share it.
func (e *Ended) Scope() *signal.Scope { return &e.output.origin.scope }

// Trace is the place in a trace of the output's first chunk.
func (e *Ended) Trace() signal.Trace { return e.output.trace }

// Size is what it takes as long as it is kept, its Scope aside.
func (e *Ended) Size() int64 { return e.output.size + int64(unsafe.Sizeof(*e)) + int64(len(e.reason)) }

// RecordSize is about what its record takes in OTLP at the most, its Scope aside.
func (e *Ended) RecordSize() int64 {
	const element = 8 // of an array, beside its text
	o := e.output
	return e.Size() + int64(len(o.joined)+element*(o.lengths.count+o.tokens.count)) // the text is there whole and in frames
}

// ScopeSize is what its Scope takes.
func (e *Ended) ScopeSize() int64 { return e.output.origin.size }

// PutOthers puts the attributes that stay on the record, other than the contract's, into dst, which must be empty.
func (e *Ended) PutOthers(dst pcommon.Map) { e.output.others.copyTo(dst) }
