package assembly

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
)

// requestEnd is the end of a request that waits for chunks that it overtook.
type requestEnd struct {
	held
	key    requestKey
	reason string
	at     uint64
	counts []uint32 // how many chunks each output had
	met    []bool   // which of them came
	unmet  int      // how many did not
}

// endOverhead is what a request end takes beside its strings and counts.
const endOverhead = int64(unsafe.Sizeof(requestEnd{})) + mapEntry + listEntries

func newRequestEnd(key requestKey, e *chunk.End) *requestEnd {
	return &requestEnd{
		key: key, reason: e.Reason, at: e.Time,
		counts: e.ChunkCounts, met: make([]bool, len(e.ChunkCounts)), unmet: len(e.ChunkCounts),
	}
}

// ends reports whether the output is one that the request's end ends: it began no later, and no final chunk ended it.
func (w *requestEnd) ends(o *output) bool { return o.startedAt <= w.at && o.finalEnd == 0 }

// counted returns how many chunks an output had, 0 where the end does not say.
func (w *requestEnd) counted(index uint32) uint32 {
	if uint64(index) < uint64(len(w.counts)) {
		return w.counts[index]
	}
	return 0
}

// meet says that all chunks of an output came.
func (w *requestEnd) meet(index uint32) {
	if uint64(index) < uint64(len(w.met)) && !w.met[index] {
		w.met[index] = true
		w.unmet--
	}
}

// EndRequest ends the outputs of a request that began no later than its end; where the end says how many chunks they had,
// and not all of them came, it waits for them.
func (t *Table) EndRequest(source Source, e *chunk.End, now time.Time) {
	key := requestKey{source, e.RequestID}
	other := t.ends[key]
	switch {
	case other == nil:
	case other.at == e.Time:
		return // a copy
	case other.at < e.Time:
		t.takeEffect(other, true)
		other = nil
	}
	w := newRequestEnd(key, e)
	t.meetAll(w)
	if w.unmet == 0 || other != nil { // another one of that id has ended since
		t.endOutputs(w, true)
		return
	}
	t.keep(w, now)
}

// meetAll finds out which outputs had all of their chunks.
func (t *Table) meetAll(w *requestEnd) {
	for index, count := range w.counts {
		if count == 0 || t.hadAll(outputKey{w.key, uint32(index)}, count, w.at) {
			w.meet(uint32(index))
		}
	}
}

// hadAll reports whether all chunks came of an output of a request that ended. What is remembered of an output may be of
// another request of that id, and tells nothing of one in flight.
func (t *Table) hadAll(key outputKey, count uint32, requestEnd uint64) bool {
	if o := t.outputs[key]; o != nil && o.startedAt <= requestEnd {
		return o.finalEnd != 0 || o.next >= count
	}
	p := t.past.recall(key)
	return p.meets(count, requestEnd)
}

// keep has a request end wait.
func (t *Table) keep(w *requestEnd, now time.Time) {
	w.counts = slices.Clone(w.counts)
	w.size = endOverhead + int64(len(w.key.request)+len(w.reason)+4*cap(w.counts)+cap(w.met))
	t.insert(w, now)
	t.wait(w, now)
	t.ends[w.key] = w
	for _, o := range t.requests[w.key] {
		t.await(o)
	}
	if w.size > t.options.OutputBytes {
		t.takeEffect(w, true)
	}
	t.evictDownTo(t.options.Outputs, w.at)
	t.MakeRoom(w.at)
}

// await has a request end wait for an output that began no later.
func (t *Table) await(o *output) {
	o.awaitedBy = nil
	if w := t.ends[o.key.requestKey]; w != nil && o.startedAt <= w.at {
		o.awaitedBy = w
	}
}

// progress tells the request end that waits for an output of what became of that.
func (t *Table) progress(o *output) {
	w := o.awaitedBy
	if w == nil {
		return
	}
	if o.next >= w.counted(o.key.index) || o.finalEnd != 0 {
		w.meet(o.key.index)
	}
	if w.unmet == 0 && t.ends[w.key] == w {
		t.takeEffect(w, true)
	}
}

// takeEffect ends what a request end waited to end.
func (t *Table) takeEffect(w *requestEnd, ofSender bool) {
	t.remove(&w.held)
	delete(t.ends, w.key)
	t.endOutputs(w, ofSender)
}

// endOutputs ends the outputs of a request, from the least to the most recently updated.
func (t *Table) endOutputs(w *requestEnd, ofSender bool) {
	var ending []*output
	for _, o := range t.requests[w.key] {
		ends := w.ends(o)
		if ends || o.awaitedBy == w {
			o.awaitedBy = nil // a later end of that id that waits is another request's
		}
		if ends {
			ending = append(ending, o)
		}
	}
	slices.SortFunc(ending, func(a, b *output) int { return cmp.Compare(a.order, b.order) })
	for _, o := range ending {
		t.endBy(w, o, ofSender)
	}
}

// endBy ends an output of a request that ended.
func (t *Table) endBy(w *requestEnd, o *output, ofSender bool) {
	o.expected = max(o.expected, w.counted(o.key.index))
	t.end(o, Ended{Cause: RequestEnd, OfSender: ofSender, reason: w.reason, finishedAt: w.at})
}
