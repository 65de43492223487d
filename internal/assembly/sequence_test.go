package assembly

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// cut is a record of the chunks from first to end but end.
type cut struct {
	first, end uint32
	final      bool
}

// from is the first chunk of a cut.
type from uint32

func (first from) to(end uint32) cut { return cut{first: uint32(first), end: end} }

// last makes it the one with the final chunk.
func (c cut) last() cut { c.final = true; return c }

// put takes a record that was accepted, as an output does.
func (s *sequence) put(c cut) {
	n := c.end - c.first
	if c.final {
		s.finalEnd = c.end
	}
	if c.first != s.next {
		s.wait(&chunk.Chunk{Frames: make([]string, n)}, c.first)
		return
	}
	s.next = c.end
	s.cuts.add(c.first, n)
	for len(s.waiting) > 0 && s.waiting[0].first == s.next {
		a := s.takeFirst()
		s.next = a.end()
		s.cuts.add(a.first, uint32(len(a.chunk.Frames)))
	}
}

func TestJudge(t *testing.T) {
	alike := []cut{from(0).to(2), from(2).to(4), from(4).to(6)}
	changing := []cut{from(0).to(1), from(1).to(2), from(2).to(5), from(5).to(8), from(8).to(9)}
	ahead := []cut{from(0).to(2), from(5).to(7), from(7).to(8), from(10).to(13)}
	ended := []cut{from(0).to(2), from(6).to(8).last()}
	for _, test := range []struct {
		name string
		base uint32
		came []cut
		it   cut
		want Outcome
	}{
		{"the first", 0, nil, from(0).to(1), Accepted},
		{"the only one", 0, nil, from(0).to(1).last(), Accepted},
		{"one with nothing before it", 0, nil, from(7).to(9), Accepted},
		{"the largest index", 0, nil, from(contract.MaxIndex).to(contract.MaxIndex + 1), Accepted},

		{"the next of records alike", 0, alike, from(6).to(8), Accepted},
		{"a copy of the first", 0, alike, from(0).to(2), Duplicate},
		{"a copy of one in the middle", 0, alike, from(2).to(4), Duplicate},
		{"a copy of the last", 0, alike, from(4).to(6), Duplicate},
		{"half of one", 0, alike, from(2).to(3), Conflicting},
		{"the other half of one", 0, alike, from(3).to(4), Conflicting},
		{"as long as others, across two of them", 0, alike, from(1).to(3), Conflicting},
		{"two at once", 0, alike, from(0).to(4), Conflicting},
		{"all at once", 0, alike, from(0).to(6), Conflicting},
		{"the last and one more", 0, alike, from(4).to(7), Conflicting},
		{"as long as others, beginning within the last", 0, alike, from(5).to(7), Conflicting},
		{"a copy that says to be final", 0, alike, from(4).to(6).last(), Duplicate},
		{"a final chunk below what came", 0, alike, from(5).to(6).last(), Conflicting},
		{"one with a hole before it", 0, alike, from(8).to(9), Accepted},

		{"a copy before a change", 0, changing, from(1).to(2), Duplicate},
		{"a copy at a change", 0, changing, from(2).to(5), Duplicate},
		{"a copy after a change", 0, changing, from(5).to(8), Duplicate},
		{"a copy after the last change", 0, changing, from(8).to(9), Duplicate},
		{"across a change", 0, changing, from(1).to(5), Conflicting},
		{"as long as those before a change", 0, changing, from(2).to(3), Conflicting},
		{"as long as those after a change", 0, changing, from(0).to(3), Conflicting},
		{"as long as those before a change, at its end", 0, changing, from(6).to(9), Conflicting},
		{"as long as those after a change, at its begin", 0, changing, from(7).to(8), Conflicting},

		{"a copy of one that waits", 0, ahead, from(5).to(7), Duplicate},
		{"a copy of one that waits in the middle", 0, ahead, from(7).to(8), Duplicate},
		{"a copy of one that waits at the end", 0, ahead, from(10).to(13), Duplicate},
		{"what fills the hole", 0, ahead, from(2).to(5), Accepted},
		{"the begin of a hole", 0, ahead, from(2).to(3), Accepted},
		{"the middle of a hole", 0, ahead, from(3).to(4), Accepted},
		{"the end of a hole", 0, ahead, from(4).to(5), Accepted},
		{"what fills a later hole", 0, ahead, from(8).to(10), Accepted},
		{"the hole and one that waits", 0, ahead, from(2).to(6), Conflicting},
		{"the begin of one that waits", 0, ahead, from(5).to(6), Conflicting},
		{"the end of one that waits", 0, ahead, from(6).to(7), Conflicting},
		{"two that wait", 0, ahead, from(5).to(8), Conflicting},
		{"across two that wait", 0, ahead, from(6).to(8), Conflicting},
		{"beginning within one that waits", 0, ahead, from(12).to(14), Conflicting},
		{"around one that waits", 0, ahead, from(4).to(9), Conflicting},
		{"the last one before the hole and the hole", 0, ahead, from(0).to(5), Conflicting},
		{"after all", 0, ahead, from(13).to(14), Accepted},
		{"a final chunk after all", 0, ahead, from(15).to(16).last(), Accepted},
		{"a final chunk next to all", 0, ahead, from(13).to(14).last(), Accepted},
		{"a final chunk in a hole", 0, ahead, from(8).to(10).last(), Conflicting},
		{"a final chunk in the first hole", 0, ahead, from(2).to(3).last(), Conflicting},

		{"a copy of the final one", 0, ended, from(6).to(8).last(), Duplicate},
		{"a copy of the final one that does not say so", 0, ended, from(6).to(8), Duplicate},
		{"a hole before the final one", 0, ended, from(2).to(6), Accepted},
		{"beyond the final one", 0, ended, from(8).to(9), Conflicting},
		{"far beyond the final one", 0, ended, from(100).to(101), Conflicting},
		{"a second final one beyond the first", 0, ended, from(8).to(9).last(), Conflicting},
		{"a second final one before the first", 0, ended, from(3).to(4).last(), Conflicting},
		{"a second final one that is cut otherwise", 0, ended, from(7).to(8).last(), Conflicting},

		{"the first of one that goes on", 5, nil, from(5).to(6), Accepted},
		{"a later one of one that goes on", 5, nil, from(7).to(8), Accepted},
		{"what the one before had", 5, nil, from(3).to(5), Late},
		{"what the one before had, when others came", 5, []cut{from(5).to(7)}, from(0).to(2), Late},
		{"what the one before had, when others wait", 5, []cut{from(8).to(9)}, from(4).to(5), Late},
		{"what the one before had in part", 5, nil, from(4).to(6), Conflicting},
		{"what the one before had in part, when others came", 5, []cut{from(5).to(7)}, from(3).to(6), Conflicting},
		{"what the one before had in part, when others wait", 5, []cut{from(8).to(9)}, from(4).to(6), Conflicting},
		{"a copy of what goes on", 5, []cut{from(5).to(7)}, from(5).to(7), Duplicate},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sequence{base: test.base, next: test.base}
			for _, c := range test.came {
				require.Equal(t, Accepted, s.judge(c.first, c.end, c.final))
				s.put(c)
			}
			assert.Equal(t, test.want, s.judge(test.it.first, test.it.end, test.it.final))
		})
	}
}

// plainSequence is a sequence that is nothing but the records that were accepted.
type plainSequence struct {
	base uint32
	came []cut
}

func (s *plainSequence) judge(it cut) Outcome {
	for _, c := range s.came {
		if c.first == it.first && c.end == it.end {
			return Duplicate
		}
	}
	if it.end <= s.base {
		return Late
	}
	if it.first < s.base {
		return Conflicting
	}
	for _, c := range s.came {
		overlap := c.first < it.end && it.first < c.end
		contradictsFinal := c.final && (it.final || it.end > c.end)
		contradictedByFinal := it.final && it.end < c.end
		if overlap || contradictsFinal || contradictedByFinal {
			return Conflicting
		}
	}
	return Accepted
}

// has reports whether a chunk came.
func (s *plainSequence) has(index uint32) bool {
	for _, c := range s.came {
		if c.first <= index && index < c.end {
			return true
		}
	}
	return false
}

// next returns the index after all chunks that have none missing before them.
func (s *plainSequence) next() uint32 {
	next := s.base
	for s.has(next) {
		next++
	}
	return next
}

// end returns the index after the last chunk that came.
func (s *plainSequence) end() uint32 {
	end := s.base
	for _, c := range s.came {
		end = max(end, c.end)
	}
	return end
}

// final returns the index after the final chunk, 0 as long as that has not come.
func (s *plainSequence) final() uint32 {
	for _, c := range s.came {
		if c.final {
			return c.end
		}
	}
	return 0
}

func TestJudgeAgainstPlainSequence(t *testing.T) {
	counts := map[Outcome]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		base, span, most := uint32(r.IntN(2)*r.IntN(5)), uint32(4+r.IntN(40)), uint32(1+r.IntN(4))
		got, want := sequence{base: base, next: base}, plainSequence{base: base}
		for step := range 60 {
			first := r.Uint32N(span)
			if r.IntN(2) == 0 {
				first = want.next() // that cuts be many
			}
			it := cut{first, first + 1 + r.Uint32N(most), r.IntN(30) == 0}
			outcome := want.judge(it)
			require.Equal(t, outcome, got.judge(it.first, it.end, it.final), "seed %d, step %d: %v after %v", seed, step, it, want)
			counts[outcome]++
			if outcome == Accepted {
				want.came = append(want.came, it)
				got.put(it)
			}
			require.Equal(t, want.next(), got.next)
			require.Equal(t, want.end(), got.end())
			require.Equal(t, want.final(), got.finalEnd)
			if want.next() == want.final() {
				break // the output ends
			}
		}
	}
	for outcome := Accepted; outcome <= Conflicting; outcome++ {
		assert.Greater(t, counts[outcome], 1000, "outcome %d must not be rare", outcome)
	}
}

// Records that are cut alike take no memory, however many they are.
func TestCutsAlikeTakeNothing(t *testing.T) {
	for _, each := range []uint32{1, 3} {
		t.Run(fmt.Sprint(each, " each"), func(t *testing.T) {
			var c cuts
			for i := range uint32(1000) {
				c.add(i*each, each)
			}
			assert.Zero(t, c.size())
			assert.True(t, c.has(500*each, 501*each))
			assert.False(t, c.has(500*each, 502*each))
		})
	}
}
