package assembly

import (
	"hash/maphash"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
)

// span is from one instant to another, both in it, in nanoseconds since 1970. The zero span is none.
type span struct{ from, to uint64 }

func (s span) has(at uint64) bool { return s != span{} && s.from <= at && at <= s.to }

// cover makes the span one that has another in it too.
func (s *span) cover(other span) {
	if *s == (span{}) {
		*s = other
		return
	}
	s.from, s.to = min(s.from, other.from), max(s.to, other.to)
}

// spans are times of outputs with one key that ended before each other.
type spans []span

// mostSpans is how many are kept apart. Beyond it the earliest become one: nothing is forgotten, but what lies between.
const mostSpans = 4

func (s spans) has(at uint64) bool {
	return slices.ContainsFunc(s, func(it span) bool { return it.has(at) })
}

// and returns the spans with a later one.
func (s spans) and(later span) spans {
	all := append(slices.Clone(s), later)
	if len(all) > mostSpans {
		all[1].cover(all[0])
		all = all[1:]
	}
	return all
}

// past is what is remembered of an output that ended.
type past struct {
	during     span  // the times of its chunks and of its end
	earlier    spans // of those of its key before
	finishedAt uint64
	base       uint32 // the index of its first chunk,
	first      uint32 // of the first one that came,
	next       uint32 // and the one after its last chunk
	// goesOn says that a limit or the clock ended it, and not the server: more of it may come.
	goesOn bool
}

// isKnown reports whether there was an output.
func (p *past) isKnown() bool { return p.during != span{} }

// isLate reports whether a numbered chunk belongs to the output that ended, or to one before.
func (p *past) isLate(c *chunk.Chunk) bool {
	return !p.continuedBy(c) && (p.during.has(c.Time) || p.earlier.has(c.Time) || p.misses(c))
}

// misses reports whether a chunk is one of the first, which did not come. Nobody knows when the output began.
func (p *past) misses(c *chunk.Chunk) bool {
	return p.base <= c.Index && c.Index < p.first && c.Time <= p.during.to
}

// continuedBy reports whether a numbered chunk goes on where the output was cut.
func (p *past) continuedBy(c *chunk.Chunk) bool { return p.goesOn && c.Index >= p.next }

// spans returns when the output was in flight, and those before.
func (p *past) spans() spans {
	if !p.isKnown() {
		return nil
	}
	return p.earlier.and(p.during)
}

// meets reports whether the output had all of its chunks when its request ended.
func (p *past) meets(count uint32, requestEnd uint64) bool {
	switch {
	case p.goesOn:
		return p.next >= count
	case !p.isKnown() || p.during.from > requestEnd:
		return false // it was another request of that id
	default:
		return p.next == count || p.finishedAt >= requestEnd
	}
}

// memory remembers outputs that ended, the latest ones, by a digest: keys may be long.
type memory struct {
	seed    maphash.Seed
	outputs *simplelru.LRU[uint64, past] // nil remembers nothing
}

func newMemory(size int) memory {
	m := memory{seed: maphash.MakeSeed()}
	if size > 0 {
		m.outputs, _ = simplelru.NewLRU[uint64, past](size, nil) // fails only where size is not above 0
	}
	return m
}

func (m *memory) remember(key outputKey, p past) {
	if m.outputs != nil {
		m.outputs.Add(maphash.Comparable(m.seed, key), p)
	}
}

// recall returns what is remembered of the last output with a key. The zero past is that of none: nothing is late for it.
func (m *memory) recall(key outputKey) (p past) {
	if m.outputs != nil {
		p, _ = m.outputs.Get(maphash.Comparable(m.seed, key))
	}
	return p
}
