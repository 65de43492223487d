package assembly

import (
	"container/list"
	"time"
	"unsafe"
)

// holder is what a table holds within its limits: an output in flight, or a request end that waits.
type holder interface{ hold() *held }

// held is a holder's place in the lists of a table.
type held struct {
	touched      time.Time // when it was updated, by the Collector's clock
	waitingSince time.Time // meaningful where it is in Table.waits
	recent       *list.Element
	waits        *list.Element // nil where it does not wait
	size         int64         // the bytes that it counts for
}

func (h *held) hold() *held { return h }

// Bytes that a holder takes in the lists.
const listEntries = 2 * int64(unsafe.Sizeof(list.Element{}))

// insert takes in what is updated now.
func (t *Table) insert(h holder, now time.Time) {
	it := h.hold()
	it.touched = now
	it.recent = t.recent.PushBack(h)
	t.bytes += it.size
}

// touch makes it the most recently updated.
func (t *Table) touch(h *held, now time.Time) {
	h.touched = now
	t.recent.MoveToBack(h.recent)
}

// wait has it wait from now on, if it does not yet.
func (t *Table) wait(h holder, now time.Time) {
	if it := h.hold(); it.waits == nil {
		it.waitingSince = now
		it.waits = t.waits.PushBack(h)
	}
}

// remove takes it out of the lists.
func (t *Table) remove(h *held) {
	t.recent.Remove(h.recent)
	if h.waits != nil {
		t.waits.Remove(h.waits)
		h.waits = nil
	}
	t.bytes -= h.size
}

// resize says how many bytes it takes now.
func (t *Table) resize(h *held, size int64) {
	t.bytes += size - h.size
	h.size = size
}
