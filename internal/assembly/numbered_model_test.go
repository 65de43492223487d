package assembly

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
)

// numberedModel is a table for numbered chunks without any thought of speed or memory: it keeps all that it heard of what is
// in flight, and finds out anew each time what follows from that. Its times are seconds; it knows no bytes.
type numberedModel struct {
	most     int          // outputs and request ends
	held     []*modelHeld // the least recently updated first
	waits    []*modelHeld // the longest first
	past     map[modelKey][]modelPast
	said     []string
	outcomes [Conflicting + 1]int
	tally    Tally
}

type modelKey struct {
	source, request string
	index           uint32
}

// modelHeld is an output in flight, or the end of a request that waits.
type modelHeld struct {
	modelKey
	touched, since uint64

	plainSequence
	chunks     []*saidChunk // as they came
	before     []modelPast  // of its key, those that it does not go on with too
	duplicates int

	end *saidEnd // nil for an output
	met []bool
}

// modelPast is what is remembered of an output.
type modelPast struct {
	from, to, finishedAt uint64
	base, first, next    uint32
	goesOn               bool
}

func (p modelPast) has(at uint64) bool { return p.from <= at && at <= p.to }

func anyHas(all []modelPast, at uint64) bool {
	return slices.ContainsFunc(all, func(p modelPast) bool { return p.has(at) })
}

// isLate reports whether a numbered chunk is none of a new output, after these.
func isLate(all []modelPast, s *saidChunk) bool {
	if len(all) == 0 || goesOn(all, s) {
		return false
	}
	last := all[len(all)-1]
	return anyHas(all, s.last) || last.base <= s.Index && s.Index < last.first && s.last <= last.to
}

// goesOn reports whether a numbered chunk continues the last of them.
func goesOn(all []modelPast, s *saidChunk) bool {
	return len(all) > 0 && all[len(all)-1].goesOn && s.Index >= all[len(all)-1].next
}

// lowest returns the record of the lowest index that came.
func (o *modelHeld) lowest() *saidChunk {
	lowest := 0
	for i, c := range o.came {
		if c.first < o.came[lowest].first {
			lowest = i
		}
	}
	return o.chunks[lowest]
}

func (o *modelHeld) startedAt() uint64 { return o.lowest().first }

// finalChunk returns the record of the final chunk, or nil.
func (o *modelHeld) finalChunk() *saidChunk {
	for _, c := range o.chunks {
		if c.IsFinal {
			return c
		}
	}
	return nil
}

// counted returns how many chunks a request end says that an output had, 0 where it does not say.
func (w *modelHeld) counted(index uint32) uint32 {
	if int(index) < len(w.end.chunkCounts) {
		return w.end.chunkCounts[index]
	}
	return 0
}

func (o *modelHeld) missing(until uint32) uint32 {
	missing := uint32(0)
	for i := o.base; i < max(until, o.plainSequence.end()); i++ {
		if !o.has(i) {
			missing++
		}
	}
	return missing
}

func (m *numberedModel) hear(s step, now uint64) {
	switch s := s.(type) {
	case *saidChunk:
		m.outcomes[m.hearChunk(s, now)] += len(s.Frames)
	case *saidEnd:
		m.hearEnd(s, now)
	case idleFor:
		for len(m.held) > 0 && m.held[0].touched+uint64(s) <= now {
			m.conclude(m.held[0], contract.ReasonIdleTimeout, now)
		}
	case giveUp:
		for len(m.waits) > 0 && m.waits[0].since+uint64(s) <= now {
			m.conclude(m.waits[0], contract.ReasonChunksMissing, now)
		}
	case flush:
		for ; s > 0 && len(m.held) > 0; s-- {
			m.conclude(append(m.waits, m.held...)[0], contract.ReasonShutdown, now)
		}
	}
}

func (m *numberedModel) hearChunk(s *saidChunk, now uint64) Outcome {
	key := modelKey{s.source, s.RequestID, s.OutputIndex}
	o := m.find(key)
	switch {
	case o == nil && s.Numbered && isLate(m.past[key], s):
		return Late
	case o == nil:
		o = m.begin(key, s)
	case s.Numbered && o.base == 0 && anyHas(o.before, s.last):
		return Late
	}
	it := cut{first: o.plainSequence.end(), final: s.IsFinal}
	if s.Numbered {
		it.first = s.Index
	}
	it.end = it.first + uint32(len(s.Frames))
	outcome := o.judge(it)
	if outcome == Duplicate {
		o.duplicates += len(s.Frames)
	}
	if outcome == Accepted {
		o.came, o.chunks = append(o.came, it), append(o.chunks, s)
		m.update(o, s, now)
	}
	return outcome
}

func (m *numberedModel) begin(key modelKey, s *saidChunk) *modelHeld {
	o := &modelHeld{modelKey: key}
	if s.Numbered {
		o.before = m.past[key]
	}
	if s.Numbered && goesOn(o.before, s) {
		o.base = o.before[len(o.before)-1].next
	}
	endsAtOnce := s.IsFinal && len(s.Frames) == 1 && (!s.Numbered || s.Index == o.base)
	for !endsAtOnce && len(m.held) >= m.most {
		m.conclude(m.held[0], contract.ReasonEvicted, s.first)
	}
	m.held = append(m.held, o)
	return o
}

// update follows a chunk that was accepted.
func (m *numberedModel) update(o *modelHeld, s *saidChunk, now uint64) {
	m.held = append(without(m.held, o), o)
	o.touched = now
	switch {
	case o.final() == 0:
		m.progress(o, o.plainSequence.next())
	case o.plainSequence.next() == o.final():
		m.end(o, "", o.finalChunk().last, 0)
		m.progress(o, o.final())
	default:
		if !slices.Contains(m.waits, o) {
			m.waits, o.since = append(m.waits, o), now
		}
		m.progress(o, o.plainSequence.next())
	}
}

func without(held []*modelHeld, it *modelHeld) []*modelHeld {
	return slices.DeleteFunc(slices.Clone(held), func(h *modelHeld) bool { return h == it })
}

func (m *numberedModel) find(key modelKey) *modelHeld {
	for _, h := range m.held {
		if h.end == nil && h.modelKey == key {
			return h
		}
	}
	return nil
}

// endOf returns the end of a request that waits, or nil.
func (m *numberedModel) endOf(source, request string) *modelHeld {
	for _, h := range m.held {
		if h.end != nil && h.source == source && h.request == request {
			return h
		}
	}
	return nil
}

// progress follows a change of an output, all of whose chunks came up to next.
func (m *numberedModel) progress(o *modelHeld, next uint32) {
	w := m.endOf(o.source, o.request)
	if w == nil || o.startedAt() > w.end.second {
		return
	}
	if i := int(o.index); i < len(w.met) && (o.final() != 0 || next >= w.counted(o.index)) {
		w.met[i] = true
	}
	if !slices.Contains(w.met, false) {
		m.takeEffect(w)
	}
}

func (m *numberedModel) hearEnd(s *saidEnd, now uint64) {
	other := m.endOf(s.source, s.request)
	if other != nil && other.end.second == s.second {
		return
	}
	if other != nil && other.end.second < s.second {
		m.takeEffect(other)
		other = nil
	}
	w := &modelHeld{modelKey: modelKey{source: s.source, request: s.request}, end: s, touched: now, since: now}
	for i, count := range s.chunkCounts {
		w.met = append(w.met, count == 0 || m.hadAll(modelKey{s.source, s.request, uint32(i)}, count, s.second))
	}
	if other != nil || !slices.Contains(w.met, false) {
		m.takeEffect(w)
		return
	}
	m.held, m.waits = append(m.held, w), append(m.waits, w)
	for len(m.held) > m.most {
		m.conclude(m.held[0], contract.ReasonEvicted, s.second)
	}
}

// hadAll reports whether all chunks of an output came before its request's end did.
func (m *numberedModel) hadAll(key modelKey, count uint32, end uint64) bool {
	if o := m.find(key); o != nil && o.startedAt() <= end {
		return o.final() != 0 || o.plainSequence.next() >= count
	}
	all := m.past[key]
	if len(all) == 0 {
		return false
	}
	p := all[len(all)-1]
	if p.goesOn {
		return p.next >= count
	}
	return p.from <= end && (p.next == count || p.finishedAt >= end)
}

func (m *numberedModel) takeEffect(w *modelHeld) {
	m.held, m.waits = without(m.held, w), without(m.waits, w)
	for _, o := range slices.Clone(m.held) {
		if o.end == nil && o.source == w.source && o.request == w.request && o.startedAt() <= w.end.second && o.final() == 0 {
			m.end(o, serverSays+w.end.reason, w.end.second, w.counted(o.index))
		}
	}
}

// conclude ends an output for a reason of the Collector, or has a request end take effect.
func (m *numberedModel) conclude(h *modelHeld, reason string, at uint64) {
	if h.end != nil {
		m.takeEffect(h)
		return
	}
	expected := uint32(0)
	if w := m.endOf(h.source, h.request); w != nil && h.startedAt() <= w.end.second &&
		(reason == contract.ReasonIdleTimeout || h.plainSequence.next() >= w.counted(h.index)) {
		reason, at, expected = serverSays+w.end.reason, w.end.second, w.counted(h.index) // it waits only for others, or for too long
	}
	if final := h.finalChunk(); final != nil {
		reason, at = contract.ReasonChunksMissing, final.last
	}
	m.end(h, reason, at, expected)
	m.progress(h, h.plainSequence.end()) // what is missing below that does not come any more
}

// serverSays begins reasons that are not the Collector's, whatever they are.
const serverSays = "server: "

// end ends an output, for no reason where its final chunk did.
func (m *numberedModel) end(o *modelHeld, reason string, at uint64, expected uint32) {
	m.held, m.waits = without(m.held, o), without(m.waits, o)
	m.remember(o, reason, at)
	m.tally.MissingChunks += int64(o.missing(expected))
	if r := o.record(reason, at, expected); o.final() == 0 && len(r.Frames) == 0 && len(r.TokenIDs) == 0 {
		m.tally.EmptyOutputs++
	} else {
		m.said = append(m.said, showRecord(r, o.others()))
	}
}

func (m *numberedModel) remember(o *modelHeld, reason string, at uint64) {
	it := modelPast{from: at, to: at, finishedAt: at, base: o.base, first: o.base, next: o.plainSequence.end()}
	for _, c := range o.chunks {
		it.from, it.to = min(it.from, c.first), max(it.to, c.last)
	}
	for !o.has(it.first) {
		it.first++
	}
	it.goesOn = reason == contract.ReasonEvicted || reason == contract.ReasonIdleTimeout
	m.past[o.modelKey] = append(slices.Clone(o.before), it)
}

// inOrder are the records that came.
func (o *modelHeld) inOrder() []*saidChunk {
	var chunks []*saidChunk
	cuts := slices.Clone(o.came)
	slices.SortFunc(cuts, func(a, b cut) int { return int(a.first) - int(b.first) })
	for _, c := range cuts {
		chunks = append(chunks, o.chunks[slices.Index(o.came, c)])
	}
	return chunks
}

func (o *modelHeld) absorbed() *modelled {
	all := &modelled{others: map[string]any{}}
	for _, c := range o.inOrder() {
		all.absorb(c)
	}
	return all
}

func (o *modelHeld) others() map[string]any { return o.absorbed().others }

func (o *modelHeld) record(reason string, at uint64, expected uint32) record.Record {
	r := o.absorbed().Record
	r.RequestID, r.OutputIndex, r.StartedAt, r.FinishedAt = o.request, o.index, o.startedAt()*second, at*second
	r.Partial, r.HasEndReason, r.EndReason = reason != "", reason != "", strings.TrimPrefix(reason, serverSays)
	r.MissingChunks, r.DuplicateChunks = record.CountOf(o.missing(expected)), record.CountOf(uint32(o.duplicates))
	r.FramesConsistent = o.missing(expected) == 0 && record.AddUp(r.Frames, r.Text)
	return r
}

// numberedSpeaker makes steps at random about few outputs, so that their ids are used again and again.
type numberedSpeaker struct {
	speaker
	next map[outputKey]uint32
}

func (s *numberedSpeaker) step(now uint64) step {
	switch n := s.IntN(100); {
	case n < 82:
		return s.chunk(now)
	case n < 92:
		end := endOf(s.one("r", "s"), s.one("", "error")).at(s.second(now))
		if s.IntN(3) > 0 {
			end.counts(s.Uint32N(8), s.Uint32N(4))
		}
		return end
	case n < 94:
		return idleFor(s.IntN(20))
	case n < 98:
		return giveUp(s.IntN(10))
	default:
		return flush(s.IntN(3))
	}
}

func (s *numberedSpeaker) chunk(now uint64) *saidChunk {
	c := s.speaker.chunk(now)
	c.RequestID, c.OutputIndex, c.source = s.one("r", "s"), s.Uint32N(2), ""
	c.IsFinal = s.IntN(12) == 0
	switch s.IntN(10) {
	case 0: // unnumbered
	case 1, 2, 3:
		c.number(s.Uint32N(12))
	default: // about in order
		key := outputKey{requestKey{request: c.RequestID}, c.OutputIndex}
		c.number(s.next[key] + s.Uint32N(2)*s.Uint32N(3))
		s.next[key] = (s.next[key] + uint32(len(c.Frames))) % 12
	}
	return c
}

// TestTableAgainstNumberedModel has conversations at random with a table and the model: both must say the same after each
// step.
func TestTableAgainstNumberedModel(t *testing.T) {
	var outcomes [Conflicting + 1]int
	reasons := map[Cause]int{}
	for seed := range uint64(200) {
		speaker := &numberedSpeaker{speaker{Rand: rand.New(rand.NewPCG(seed, 6)), frameBytes: 6}, map[outputKey]uint32{}}
		limits := few(1 + int(seed%7)) // there are 4 outputs and 2 request ends to speak of
		c, m := begin(limits), &numberedModel{most: limits.Outputs, past: map[modelKey][]modelPast{}}
		for range 400 {
			s := speaker.step(c.second + 1)
			c.second++
			s.do(c)
			m.hear(s, c.second)

			ended, tally := c.table.TakeEnded()
			require.Equal(t, m.said, showAll(ended), "seed %d, step %d: %+v", seed, c.second, s)
			require.Equal(t, m.tally, tally, "seed %d, step %d: %+v", seed, c.second, s)
			require.Equal(t, m.outcomes, c.outcomes, "seed %d, step %d: %+v", seed, c.second, s)
			require.Equal(t, len(m.held), c.table.recent.Len(), "seed %d, step %d: %+v", seed, c.second, s)
			require.Equal(t, len(m.waits), c.table.waits.Len(), "seed %d, step %d: %+v", seed, c.second, s)
			checkInvariants(t, c.table)
			m.said, m.tally = nil, Tally{}
			for i := range ended {
				reasons[ended[i].Cause]++
			}
		}
		for i, n := range c.outcomes {
			outcomes[i] += n
		}
		c.table.Flush(100, 0)
		checkNothingIsLeft(t, c.table)
	}
	for outcome, n := range outcomes {
		assert.Greater(t, n, 1000, "outcome %d must not be rare", outcome)
	}
	for cause := Finished; cause <= ChunksMissing; cause++ {
		assert.Greater(t, reasons[cause], 100, "cause %d must not be rare", cause)
	}
}
