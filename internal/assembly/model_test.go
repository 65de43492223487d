package assembly

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/record"
)

// model is a table without any thought of speed or memory, so short that it is right by looking at it. It hears the same
// steps as a Table and must say the same.
type model struct {
	mostOutputs int
	inFlight    []*modelled // the least recently updated first
	said        []string
	empty       int
}

// modelled is an output in flight: the record as it would be now, and what is not on it.
type modelled struct {
	record.Record
	source  string
	touched uint64
	others  map[string]any
}

func (m *model) hear(s step, now uint64) {
	switch s := s.(type) {
	case *saidChunk:
		m.hearChunk(s, now)
	case *saidEnd:
		at := s.second * second
		for _, o := range slices.Clone(m.inFlight) {
			if o.source == s.source && o.RequestID == s.request && o.StartedAt <= at {
				m.end(o, true, s.reason, at)
			}
		}
	case idleFor:
		for _, o := range slices.Clone(m.inFlight) {
			if o.touched+uint64(s) <= now {
				m.end(o, true, "idle_timeout", now*second)
			}
		}
	case flush:
		for range min(int(s), len(m.inFlight)) {
			m.end(m.inFlight[0], true, "shutdown", now*second)
		}
	}
}

func (m *model) hearChunk(s *saidChunk, now uint64) {
	o := m.take(s.source, s.RequestID, s.OutputIndex)
	if o == nil {
		o = &modelled{source: s.source, others: map[string]any{}}
		o.RequestID, o.OutputIndex, o.StartedAt = s.RequestID, s.OutputIndex, s.first*second
		if len(m.inFlight) == m.mostOutputs && (!s.IsFinal || len(s.Frames) > 1) {
			m.end(m.inFlight[0], true, "evicted", s.first*second)
		}
	}
	m.inFlight = append(m.inFlight, o)
	o.absorb(s)
	o.touched = now
	if s.IsFinal {
		m.end(o, false, "", s.last*second)
	}
}

// take takes an output out of the order, or returns nil.
func (m *model) take(source, request string, index uint32) *modelled {
	for i, o := range m.inFlight {
		if o.source == source && o.RequestID == request && o.OutputIndex == index {
			m.inFlight = slices.Delete(slices.Clone(m.inFlight), i, i+1)
			return o
		}
	}
	return nil
}

func (o *modelled) absorb(s *saidChunk) {
	for _, frame := range s.Frames {
		if frame != "" {
			o.Frames = append(o.Frames, frame)
			o.Text += frame
		}
	}
	if s.HasText {
		o.Text = s.Text
	}
	o.TokenIDs = append(o.TokenIDs, s.TokenIDs...)
	if s.Streaming != chunk.Unknown {
		o.Streaming = s.Streaming == chunk.True
	}
	if s.Aborted != chunk.Unknown {
		o.Aborted = s.Aborted == chunk.True
	}
	if s.HasDisaggRequestID {
		o.DisaggRequestID = s.DisaggRequestID
	}
	if s.Others > 0 {
		maps.Copy(o.others, s.Attributes.AsRaw())
	}
}

func (m *model) end(o *modelled, partial bool, reason string, at uint64) {
	m.take(o.source, o.RequestID, o.OutputIndex)
	if partial && len(o.Frames) == 0 && len(o.TokenIDs) == 0 {
		m.empty++
		return
	}
	r := o.Record
	r.FinishedAt, r.Partial, r.EndReason, r.HasEndReason = at, partial, reason, partial
	r.FramesConsistent = record.AddUp(r.Frames, r.Text)
	m.said = append(m.said, showRecord(r, o.others))
}

// takeSaid returns what ended since the last call.
func (m *model) takeSaid() (said []string, empty int) {
	said, empty = m.said, m.empty
	m.said, m.empty = nil, 0
	return said, empty
}

// speaker makes steps at random.
type speaker struct {
	*rand.Rand
	alwaysText bool // no chunk without text
	frameBytes int  // the most
}

func (s *speaker) one(of ...string) string { return of[s.IntN(len(of))] }

// step makes a step of second now: its times are there or somewhat before.
func (s *speaker) step(now uint64) step {
	switch n := s.IntN(100); {
	case n < 90:
		return s.chunk(now)
	case n < 95:
		return endOf(s.one("r", "s", "t"), s.one("", "error")).by(s.one("a", "b")).at(s.second(now))
	case n < 98:
		return idleFor(s.IntN(20))
	default:
		return flush(s.IntN(3))
	}
}

func (s *speaker) second(now uint64) uint64 { return now - min(now-1, s.Uint64N(10)) }

func (s *speaker) chunk(now uint64) *saidChunk {
	frames := make([]string, 1+s.IntN(3))
	for i := range frames {
		frames[i] = strings.Repeat(s.one("a", "é", "\xc3", "\xa9", "😀", "\xff"), s.IntN(max(s.frameBytes/2, 1)))
		if s.IntN(4) == 0 {
			frames[i] = ""
		}
		if s.alwaysText {
			frames[i] += "x"
		}
	}
	c := chunkOf(s.one("r", "s", "t"), frames...).index(uint32(s.IntN(3))).by(s.one("a", "b"))
	first := s.second(now)
	c.during(first, first+s.Uint64N(3))
	for _, detail := range []func(){
		func() { c.final() },
		func() { c.text(s.one("a", "aa", "é", "A text that is not made of frames")) },
		func() { c.tokens(s.Uint32(), s.Uint32()) },
		func() { c.streaming(chunk.Flag(s.IntN(3))) },
		func() { c.aborted(chunk.Flag(s.IntN(3))) },
		func() { c.disagg(s.one("", "d", "e")) },
		func() { c.with(map[string]any{s.one("k", "l"): s.Int64N(3)}) },
	} {
		if s.IntN(5) == 0 {
			detail()
		}
	}
	return c
}

const (
	conversations = 40
	stepsEach     = 500
)

// TestTableAgainstModel has conversations at random with a table and the model: both must say the same after each step.
func TestTableAgainstModel(t *testing.T) {
	for seed := range uint64(conversations) {
		speaker := &speaker{Rand: rand.New(rand.NewPCG(seed, 0)), frameBytes: 8}
		limits := unlimited
		limits.Outputs = 1 + int(seed%20)    // 18 different outputs are spoken of
		limits.Remembered = 10 * int(seed%2) // what ended before means nothing to chunks without numbers
		c, m := begin(limits), &model{mostOutputs: limits.Outputs}
		for range stepsEach {
			s := speaker.step(c.second + 1)
			said, empty := c.say(s)
			m.hear(s, c.second)
			wantSaid, wantEmpty := m.takeSaid()
			require.Equal(t, wantSaid, said, "seed %d, step %d: %T", seed, c.second, s)
			require.Equal(t, wantEmpty, empty, "seed %d, step %d: %T", seed, c.second, s)
			require.Equal(t, len(m.inFlight), c.table.Len())
			checkInvariants(t, c.table)
		}
		c.say(flush(len(m.inFlight)))
		checkInvariants(t, c.table)
		require.Zero(t, c.table.Bytes(), "nothing in flight takes nothing")
	}
}

// TestBytesAgainstModel does the same with limits of bytes. The model knows no sizes: it follows the table in which outputs
// are evicted, and checks that they are those whose turn it is, no more than must be, and with all that they should have.
func TestBytesAgainstModel(t *testing.T) {
	for seed := range uint64(conversations) {
		speaker := &speaker{Rand: rand.New(rand.NewPCG(seed, 1)), frameBytes: 300, alwaysText: true}
		limits := Options{Outputs: 1000, Bytes: 2000 + 500*int64(seed), OutputBytes: 1500 + 1000*int64(seed%5)}
		c, m := begin(limits), &model{mostOutputs: limits.Outputs}
		for range stepsEach {
			s := speaker.step(c.second + 1)
			if speaker.IntN(20) == 0 {
				c.table.Hold(speaker.Int64N(limits.Bytes))
			}
			c.second++
			s.do(c)
			m.hear(s, c.second)
			ended, tally := c.table.TakeEnded()
			followEvictions(t, c, m, s, ended)
			wantSaid, _ := m.takeSaid()
			require.Equal(t, wantSaid, showAll(ended), "seed %d, step %d: %T", seed, c.second, s)
			require.Zero(t, tally.EmptyOutputs)
			require.Equal(t, len(m.inFlight), c.table.Len())
			if _, ok := s.(*saidChunk); ok { // what the caller holds counts from the next chunk on
				checkInvariants(t, c.table)
			}
		}
	}
}

func followEvictions(t *testing.T, c *conversation, m *model, s step, ended []Ended) {
	t.Helper()
	for i := range ended {
		e := &ended[i]
		if e.Cause != Evicted {
			continue
		}
		said := s.(*saidChunk)
		victim := m.inFlight[0]
		if e.OfSender { // over its own limit
			victim = m.inFlight[len(m.inFlight)-1]
			require.Greater(t, e.Size(), c.table.options.OutputBytes)
		} else if i == len(ended)-1 {
			before := c.table.Bytes() + e.Size() + e.output.origin.size
			require.Greater(t, before+c.table.held, c.table.options.Bytes, "the last one evicted had to go")
		}
		m.end(victim, true, "evicted", said.last*second)
	}
}

func showAll(ended []Ended) (said []string) {
	for i := range ended {
		said = append(said, show(&ended[i]))
	}
	return said
}

// The model itself says what one would expect in a conversation that can be followed by eye.
func TestModel(t *testing.T) {
	m := &model{mostOutputs: 1}
	for i, s := range []step{
		chunkOf("r", "a").at(1), chunkOf("r", "b").text("AB").at(2), chunkOf("s", "c").at(3), chunkOf("t").at(4).final(),
		endOf("s", "error").at(5), chunkOf("u").at(6), flush(1),
	} {
		m.hear(s, uint64(i+1))
	}
	said, empty := m.takeSaid()
	require.Equal(t, []string{
		`r/0 1-3 "AB" ["a" "b"] partial reason="evicted" inconsistent`,
		`t/0 4-4 "" []`,
		`s/0 3-5 "c" ["c"] partial reason="error"`,
	}, said)
	require.Equal(t, 1, empty)
}
