package assembly

import (
	"math"
	"slices"
	"time"
	"unicode/utf8"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/heapsize"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// outputKey is what an output is known by.
type outputKey struct {
	requestKey
	index uint32
}

type requestKey struct {
	source  Source
	request string
}

// output is one output in flight: a buffer of text with the lengths of its frames, not a string for each.
type output struct {
	held
	sequence
	key       outputKey
	origin    *origin // of its first chunk, as the next two
	trace     signal.Trace
	startedAt uint64
	first     uint32 // the index of the first chunk that came

	joined  []byte   // the text of all frames
	lengths numbers  // of each of them that has text
	times   []uint32 // when each of them came, in microseconds after startedAt; kept only if they are asked for
	tokens  numbers

	// text is the latest full text received, where it is not what was joined until then; the record's text is then text
	// plus what was joined after textEnd. Where the two are the same, as they should be, it is not kept.
	text     []byte
	textEnd  int
	diverged bool

	streaming, aborted bool
	disagg             string
	others             others

	finalAt    uint64 // the time of that
	keepsTimes bool
	during     span  // of all chunks
	earlier    spans // of the outputs of the same key before
	awaitedBy  *requestEnd
	expected   uint32 // the index after its last chunk, where a request end told
	chunks     uint32 // that came
	duplicates uint32 // that came again
	aheadBytes int64  // of the chunks that wait
	order      uint64 // grows with each chunk of the table: who was updated before whom
	slot       int    // in its request's outputs

	// What check found out: whether all of the text is valid UTF-8, and none of it cut within a character; and whether its
	// frames add up to it.
	checked, valid, consistent bool
}

// Bytes that an output, or an origin, takes beside its buffers: itself, its entries in lists, maps and slices.
const (
	mapEntry       = 96
	outputOverhead = int64(unsafe.Sizeof(output{})) + listEntries + 2*mapEntry
	originOverhead = int64(unsafe.Sizeof(origin{})) + mapEntry
)

// judge says where a chunk record belongs, and what is to become of it. Without a number it comes after all others.
func (o *output) judge(c *chunk.Chunk) (first uint32, outcome Outcome) {
	first = o.end()
	if c.Numbered {
		if first = c.Index; o.base == 0 && o.earlier.has(c.Time) { // else judge tells by the index
			return first, Late
		}
	}
	n := uint32(len(c.Frames))
	outcome = o.sequence.judge(first, first+n, c.IsFinal)
	if outcome == Duplicate {
		o.duplicates += n
	}
	return first, outcome
}

// take takes a record of the chunks from first on, which may have to wait for those before it.
func (o *output) take(c *chunk.Chunk, first uint32) {
	o.chunks += uint32(len(c.Frames))
	o.during.cover(span{c.StartedAt, c.Time})
	if c.IsFinal {
		o.finalEnd, o.finalAt = first+uint32(len(c.Frames)), c.Time
	}
	if first != o.next {
		o.aheadBytes += o.wait(c, first).size
		return
	}
	o.absorb(c, first)
	for len(o.waiting) > 0 && o.waiting[0].first == o.next {
		o.absorbWaiting()
	}
}

// isFinished reports whether the final chunk came, and all before it.
func (o *output) isFinished() bool { return o.finalEnd != 0 && o.next == o.finalEnd }

// absorbWaiting adds the first record that waits.
func (o *output) absorbWaiting() {
	a := o.takeFirst()
	o.aheadBytes -= a.size
	o.absorb(a.chunk, a.first)
}

// closeUp adds all that waits, whatever is missing before it.
func (o *output) closeUp() {
	for len(o.waiting) > 0 {
		o.absorbWaiting()
	}
}

// absorb adds a chunk record. Nothing of the record is referred to afterwards.
func (o *output) absorb(c *chunk.Chunk, first uint32) {
	n := uint32(len(c.Frames))
	o.next = first + n
	o.cuts.add(first, n)
	o.absorbFrames(c)
	o.tokens.addAll(c.TokenIDs)
	if c.HasText {
		o.setText(c.Text)
	}
	o.aborted = c.Aborted.Or(o.aborted)
	o.streaming = c.Streaming.Or(o.streaming)
	if c.HasDisaggRequestID {
		o.disagg = c.DisaggRequestID
	}
	if c.Others > 0 {
		o.others.absorb(c.Attributes)
	}
}

func (o *output) absorbFrames(c *chunk.Chunk) {
	joined, lengths := o.joined, o.lengths // what is on the heap is written to once, which costs the garbage collector less
	for i, frame := range c.Frames {
		if frame == "" {
			continue
		}
		joined = append(joined, frame...)
		lengths.add(uint32(len(frame)))
		if o.keepsTimes {
			o.times = append(o.times, microsBetween(o.startedAt, c.TimeOf(i)))
		}
	}
	o.joined, o.lengths = joined, lengths
}

// microsBetween is the time between two instants in microseconds, as far as 32 bits tell.
func microsBetween(from, to uint64) uint32 {
	from, to = from/uint64(time.Microsecond), to/uint64(time.Microsecond) // as the line has them
	return uint32(min(max(from, to)-from, math.MaxUint32))
}

func (o *output) setText(text string) {
	o.textEnd = len(o.joined)
	o.diverged = text != string(o.joined)
	if o.diverged {
		o.text = append(o.text[:0], text...)
	} else {
		o.text = nil
	}
}

func (o *output) measure() int64 {
	return outputOverhead + int64(cap(o.joined)+cap(o.text)+o.lengths.size()+4*cap(o.times)+o.tokens.size()) +
		int64(len(o.key.request)+len(o.disagg)+len(o.trace.State)) + o.others.size + o.cuts.size() + o.aheadBytes
}

// past returns what is to be remembered of the output when it has ended.
func (o *output) past(e *Ended) past {
	during := o.during
	during.cover(span{e.finishedAt, e.finishedAt})
	return past{
		during: during, earlier: o.earlier, finishedAt: e.finishedAt,
		base: o.base, first: o.first, next: o.next, goesOn: e.Cause == Evicted || e.Cause == Idle,
	}
}

// missing returns how many chunks are known to be missing.
func (o *output) missing() uint32 { return max(o.end(), o.expected) - o.base - o.chunks }

// isEmpty reports whether the output has nothing to show but its final chunk.
func (o *output) isEmpty() bool { return o.lengths.count == 0 && o.tokens.count == 0 }

// fill makes r the output's record, but for how it ended, and uses its lists of frames and token ids again. The record shares the
// output's text: nothing may be absorbed afterwards.
func (o *output) fill(r *record.Record) {
	o.check()
	*r = record.Record{
		RequestID:        o.key.request,
		DisaggRequestID:  o.disagg,
		OutputIndex:      o.key.index,
		StartedAt:        o.startedAt,
		Streaming:        o.streaming,
		Aborted:          o.aborted,
		Text:             o.fullText(),
		Frames:           o.appendFrames(r.Frames[:0]),
		TokenIDs:         o.tokens.appendTo(r.TokenIDs[:0]),
		FrameTimes:       o.times,
		Chunks:           record.CountOf(o.chunks),
		MissingChunks:    record.CountOf(o.missing()),
		DuplicateChunks:  record.CountOf(o.duplicates),
		ValidUTF8:        o.valid,
		FramesConsistent: o.consistent,
	}
	if o.keepsTimes && o.times == nil {
		r.FrameTimes = []uint32{} // kept, of no frames
	}
}

func (o *output) fullText() string {
	joined := asString(o.joined)
	if o.diverged {
		return string(o.text) + joined[o.textEnd:]
	}
	return joined
}

func (o *output) appendFrames(frames []string) []string {
	frames, joined := slices.Grow(frames, o.lengths.count), asString(o.joined)
	for rest := o.lengths.varints; len(rest) > 0; {
		n, size := firstNumber(rest)
		frames, joined, rest = append(frames, joined[:n]), joined[n:], rest[size:]
	}
	return frames
}

// check finds out, once, whether the frames of the output's line add up to its text. It spares the comparison where the text
// is the frames and none of them is cut within a character. Nothing may be absorbed afterwards.
func (o *output) check() {
	if o.checked {
		return
	}
	o.checked = true
	o.valid = !o.diverged && o.cutBetweenCharacters()
	o.consistent = o.missing() == 0 && (o.valid || record.AddUp(o.appendFrames(nil), o.fullText()))
}

func (o *output) cutBetweenCharacters() bool {
	joined := o.joined
	for rest := o.lengths.varints; len(rest) > 0; {
		if !utf8.RuneStart(joined[0]) {
			return false
		}
		n, size := firstNumber(rest)
		joined, rest = joined[n:], rest[size:]
	}
	return utf8.Valid(o.joined)
}

// asString makes a string of a buffer that will not be written to again.
func asString(buffer []byte) string { return unsafe.String(unsafe.SliceData(buffer), len(buffer)) }

// Bounds on the attributes, other than the contract's, that an output keeps.
const (
	MaxOthers      = 64
	MaxOthersBytes = 16 << 10
)

// others are the attributes of an output's chunks that are not the contract's, the last value of each.
type others struct {
	values pcommon.Map
	exists bool
	size   int64
}

func (a *others) absorb(attributes pcommon.Map) {
	if !a.exists {
		a.values, a.exists = pcommon.NewMap(), true
	}
	for key, value := range attributes.All() {
		if chunk.IsOther(key) {
			a.set(key, value)
		}
	}
}

// set keeps a value where the bounds allow. Where they do not, the attribute is gone: none is better than an old one.
func (a *others) set(key string, value pcommon.Value) {
	old, known := a.values.Get(key)
	if known {
		if old.Equal(value) {
			return
		}
		a.size -= heapsize.Entry(key, old)
	}
	size := heapsize.Entry(key, value)
	switch {
	case a.size+size > MaxOthersBytes || !known && a.values.Len() >= MaxOthers:
		a.values.Remove(key)
	case known:
		value.CopyTo(old)
		a.size += size
	default:
		value.CopyTo(a.values.PutEmpty(key))
		a.size += size
	}
}

// copyTo puts the attributes into dst.
func (a *others) copyTo(dst pcommon.Map) {
	if a.exists {
		a.values.CopyTo(dst)
	}
}
