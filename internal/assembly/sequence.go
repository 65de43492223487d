package assembly

import (
	"slices"
	"sort"
	"unsafe"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
)

// Outcome is what becomes of a chunk record.
type Outcome uint8

// The outcomes.
const (
	Accepted    Outcome = iota
	Duplicate           // it came before
	Late                // its output has ended
	Conflicting         // it contradicts what came before, which stays
)

// sequence is which chunks of an output came, by their index: all from base to next but next, and beyond a hole those
// that wait. The final chunk may be among them.
type sequence struct {
	base     uint32 // the first one's index; above 0 where the output goes on with one that was evicted
	next     uint32
	cuts     cuts     // of the chunks before next
	waiting  []*ahead // in order; none of them overlaps another
	finalEnd uint32   // the index after the final chunk, 0 as long as that has not come
}

// ahead is a chunk record beyond a hole.
type ahead struct {
	chunk *chunk.Chunk // a copy
	first uint32
	size  int64
}

func (a *ahead) end() uint32 { return a.first + uint32(len(a.chunk.Frames)) }

// end returns the index after the last chunk that came.
func (s *sequence) end() uint32 {
	if n := len(s.waiting); n > 0 {
		return s.waiting[n-1].end()
	}
	return s.next
}

// judge says what to do with a record of the chunks from first to end but end.
func (s *sequence) judge(first, end uint32, isFinal bool) Outcome {
	switch {
	case first == s.next && len(s.waiting) == 0:
		return Accepted
	case end <= s.base:
		return Late // the output that this one goes on with had it
	case first < s.next:
		return duplicateIf(s.cuts.has(first, end))
	}
	at := s.find(first)
	switch {
	case at < len(s.waiting) && s.waiting[at].first < end:
		return duplicateIf(s.waiting[at].first == first && s.waiting[at].end() == end)
	case at > 0 && s.waiting[at-1].end() > first:
		return Conflicting
	case s.finalEnd != 0 && end > s.finalEnd:
		return Conflicting
	case isFinal && end < s.end():
		return Conflicting
	default:
		return Accepted
	}
}

func duplicateIf(same bool) Outcome {
	if same {
		return Duplicate
	}
	return Conflicting
}

// find returns where in waiting a record belongs that begins with first.
func (s *sequence) find(first uint32) int {
	return sort.Search(len(s.waiting), func(i int) bool { return s.waiting[i].first >= first })
}

// wait keeps a copy of a record until the chunks before it come.
func (s *sequence) wait(c *chunk.Chunk, first uint32) *ahead {
	a := &ahead{chunk: c.Clone(), first: first}
	a.size = a.chunk.Size() + aheadOverhead
	s.waiting = slices.Insert(s.waiting, s.find(first), a)
	return a
}

// aheadOverhead is what a record that waits takes beside its chunk: itself and its place in the list.
const aheadOverhead = int64(unsafe.Sizeof(ahead{})) + 2*int64(unsafe.Sizeof(uintptr(0)))

// takeFirst takes the first record from those that wait.
func (s *sequence) takeFirst() *ahead {
	a := s.waiting[0]
	s.waiting[0] = nil
	if s.waiting = s.waiting[1:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
	return a
}

// cuts is how chunks in order were cut into records, so that a copy of a record can be told from another record of the same
// chunks. Most emitters cut most of their records alike: only changes are kept.
type cuts struct {
	last    run
	earlier []run
}

// run is records of the same number of chunks, one after the other.
type run struct{ first, each uint32 }

func (c *cuts) add(first, n uint32) {
	if c.last.each == n {
		return
	}
	if c.last.each != 0 {
		c.earlier = append(c.earlier, c.last)
	}
	c.last = run{first, n}
}

// has reports whether there was a record of the chunks from first, which came, to end but end.
func (c *cuts) has(first, end uint32) bool {
	r := c.last
	if first < r.first {
		i := sort.Search(len(c.earlier), func(i int) bool { return c.earlier[i].first > first })
		if i == 0 {
			return false
		}
		r = c.earlier[i-1]
	}
	return end-first == r.each && (first-r.first)%r.each == 0
}

func (c *cuts) size() int64 { return int64(cap(c.earlier)) * int64(unsafe.Sizeof(run{})) }
