package assembly

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// script turns bytes into a conversation: each byte is a choice. What is beyond its end is 0.
type script []byte

func (s *script) choose(n int) int {
	if len(*s) == 0 {
		return 0
	}
	choice := int((*s)[0]) % n
	*s = (*s)[1:]
	return choice
}

func (s *script) options() Options {
	return Options{
		Outputs:     1 + s.choose(8),
		Bytes:       []int64{1, 1000, 3000, 10_000, 1 << 40}[s.choose(5)],
		OutputBytes: []int64{1, 1000, 2000, 5000, 1 << 40}[s.choose(5)],
		Remembered:  s.choose(5),
		FrameTimes:  s.choose(2) == 1,
	}
}

// step makes a step; now is the second in which it comes.
func (s *script) step(now uint64) step {
	switch s.choose(16) {
	case 0, 1:
		return s.end(now)
	case 2:
		return idleFor(s.choose(10))
	case 3:
		return giveUp(s.choose(10))
	case 4:
		return flush(s.choose(3))
	case 5:
		return holdAndMakeRoom(1000 * s.choose(8))
	default:
		return s.chunk(now)
	}
}

// holdAndMakeRoom is the step of a caller that holds so many bytes of records.
type holdAndMakeRoom int64

func (bytes holdAndMakeRoom) do(c *conversation) {
	hold(bytes).do(c)
	makeRoom{}.do(c)
}

func (s *script) request() string {
	return []string{"r", "s", strings.Repeat("t", contract.MaxIDBytes)}[s.choose(3)]
}

func (s *script) source() string { return []string{"a", "b"}[s.choose(2)] }

// second is now or before, or long ago, or in the future.
func (s *script) second(now uint64) uint64 {
	if back := uint64(s.choose(12)); back < 10 {
		return max(now, back) - back
	} else if back == 10 {
		return 0
	}
	return now + 1000
}

// index is small, or as large as it may be for a record of so many chunks.
func (s *script) index(chunks int) uint32 {
	if i := s.choose(16); i < 12 {
		return uint32(i)
	} else {
		return contract.MaxIndex + 1 - uint32(chunks) - uint32(i-12)
	}
}

func (s *script) end(now uint64) *saidEnd {
	e := endOf(s.request(), []string{"", "error", strings.Repeat("x", 2000)}[s.choose(3)]).by(s.source()).at(s.second(now))
	for range s.choose(4) {
		e.chunkCounts = append(e.chunkCounts, []uint32{0, 1, 2, 3, 5, 12, contract.MaxIndex}[s.choose(7)])
	}
	if s.choose(30) == 29 {
		e.chunkCounts = append(e.chunkCounts, make([]uint32, 2000)...)
	}
	return e
}

func (s *script) chunk(now uint64) *saidChunk {
	frames := make([]string, 1+s.choose(3))
	for i := range frames {
		frames[i] = []string{"", "a", "\xc3", strings.Repeat("x", 700)}[s.choose(4)]
	}
	c := chunkOf(s.request(), frames...).index(uint32(s.choose(2))).by(s.source()).in([]string{"", "scope"}[s.choose(2)], 0)
	last := s.second(now)
	c.during(max(last, 2)-min(2, uint64(s.choose(3))), max(last, 2))
	c.IsFinal = s.choose(6) == 5
	if s.choose(5) != 4 {
		c.number(s.index(len(frames)))
	}
	switch s.choose(8) {
	case 1:
		c.text([]string{"", "a", strings.Repeat("y", 1500)}[s.choose(3)])
	case 2:
		c.tokens(make([]uint32, s.choose(256))...)
	case 3:
		c.streaming(chunk.Flag(s.choose(3))).disagg([]string{"", "d"}[s.choose(2)])
	case 4:
		c.with(map[string]any{"k": strings.Repeat("v", 10*s.choose(256))})
	case 5:
		c.dropped(uint32(s.choose(256)))
	}
	return c
}

// FuzzTable has any conversation with a table: whatever comes, it stays within its limits, and every chunk is accounted for.
func FuzzTable(f *testing.F) {
	r := rand.New(rand.NewPCG(0, 7))
	for range 50 {
		seed := make([]byte, 600)
		for i := range seed {
			seed[i] = byte(r.IntN(256))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		s := script(bytes)
		a := &accountant{conversation: begin(s.options())}
		for len(s) > 0 {
			a.second += uint64(s.choose(4))
			step := s.step(a.second)
			if said, ok := step.(*saidChunk); ok {
				a.said += len(said.Frames)
			}
			step.do(a.conversation)
			checkInvariants(t, a.table)
			a.take(t)
			a.check(t)
		}
		for a.table.Flush(1+s.choose(3), a.second*second) {
			checkInvariants(t, a.table)
		}
		a.take(t)
		a.check(t)
		checkNothingIsLeft(t, a.table)
	})
}

// accountant knows what became of the chunks in a conversation.
type accountant struct {
	*conversation
	said, recorded int
	empty          bool // some outputs ended with nothing to write: nobody knows how many chunks they had
}

// take takes the records of what ended, and checks that they are of one piece.
func (a *accountant) take(t *testing.T) {
	t.Helper()
	ended, tally := a.table.TakeEnded()
	a.empty = a.empty || tally.EmptyOutputs > 0
	missing := int64(0)
	for i := range ended {
		e := &ended[i]
		r := recordOf(e)
		a.recorded += int(r.Chunks.Value)
		missing += int64(r.MissingChunks.Value)
		must(t, r.Chunks.Value > 0, "a record has chunks")
		must(t, r.Partial == (e.Cause != Finished) && r.HasEndReason == r.Partial, "a record without a final chunk is partial")
		must(t, !r.FramesConsistent || r.MissingChunks.Value == 0, "with chunks missing, no record is consistent")
		must(t, (e.Cause == ChunksMissing) == (r.MissingChunks.Value > 0 && e.output.finalEnd != 0), "a final chunk and a hole make missing chunks")
		must(t, (e.Cause == Finished) == (r.MissingChunks.Value == 0 && e.output.finalEnd != 0), "a final chunk and no hole make a finished output")
		must(t, !a.table.options.FrameTimes || len(r.FrameTimes) == len(r.Frames), "each frame has its time")
		must(t, a.table.options.FrameTimes || r.FrameTimes == nil, "nobody asked for times")
		must(t, len(r.Frames) > 0 || len(r.TokenIDs) > 0 || e.output.finalEnd != 0, "a record has something in it")
		must(t, e.output.awaitedBy == nil && e.output.waiting == nil, "nothing is kept that the record does not need")
		must(t, e.output.size == e.output.measure() && e.Size() > e.output.size, "a record counts for what it takes")
	}
	must(t, a.empty || missing == tally.MissingChunks, "missing chunks are counted")
}

// check checks that each chunk has one outcome, and that those accepted are in flight or on a record.
func (a *accountant) check(t *testing.T) {
	t.Helper()
	outcomes := 0
	for _, n := range a.outcomes {
		outcomes += n
	}
	must(t, outcomes == a.said, "each chunk has one outcome")
	accepted := a.recorded
	for _, o := range a.table.outputs {
		accepted += int(o.chunks)
	}
	must(t, accepted == a.outcomes[Accepted] || a.empty && accepted < a.outcomes[Accepted], "accepted chunks are in flight or on a record")
}
