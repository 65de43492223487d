package assembly

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
)

// stream is what servers sent: outputs whose chunks are numbered, and the ends of the requests that got no final chunk.
type stream struct {
	outputs []*sentOutput
	ends    []*saidEnd
}

// sentOutput is an output as its server sent it.
type sentOutput struct {
	chunks []*saidChunk // in order
	end    *saidEnd     // of its request, where that had one; it ends the output where no chunk is final
}

func (o *sentOutput) hasFinal() bool { return o.chunks[len(o.chunks)-1].IsFinal }

func (o *sentOutput) length() (chunks uint32) {
	for _, c := range o.chunks {
		chunks += uint32(len(c.Frames))
	}
	return chunks
}

// record says what the record must be when of all chunks but one those before and after it came; none is left out where
// the number is negative. It is empty for an output with nothing to write.
func (o *sentOutput) record(without int) string {
	came := slices.Clone(o.chunks)
	missing := 0
	if without >= 0 {
		missing = len(came[without].Frames)
		came = slices.Delete(came, without, without+1)
	}
	first, last := came[0], came[len(came)-1]
	m := modelled{others: map[string]any{}}
	m.RequestID, m.OutputIndex, m.StartedAt = first.RequestID, first.OutputIndex, first.first*second
	for _, c := range came {
		m.absorb(c)
	}
	m.Chunks, m.MissingChunks = record.CountOf(o.length()-uint32(missing)), record.CountOf(uint32(missing))
	m.FramesConsistent = missing == 0 && record.AddUp(m.Frames, m.Text)
	switch {
	case !last.IsFinal:
		m.FinishedAt, m.Partial, m.EndReason, m.HasEndReason = o.end.second*second, true, o.end.reason, true
		if len(m.Frames) == 0 && len(m.TokenIDs) == 0 {
			return ""
		}
	case missing > 0:
		m.FinishedAt, m.Partial, m.EndReason, m.HasEndReason = last.last*second, true, contract.ReasonChunksMissing, true
	default:
		m.FinishedAt = last.last * second
	}
	return fmt.Sprintf("%s of %s, %d chunks%s", showRecord(m.Record, m.others), first.source, m.Chunks.Value, showPlace(first.scope, first.span))
}

// records are those of all outputs, in no order; of one output one chunk record is left out.
func (s *stream) records(of *sentOutput, without int) (records []string, empty int) {
	for _, o := range s.outputs {
		n := -1
		if o == of {
			n = without
		}
		if r := o.record(n); r != "" {
			records = append(records, r)
		} else {
			empty++
		}
	}
	slices.Sort(records)
	return records, empty
}

// sender makes streams.
type sender struct {
	speaker
	second uint64
}

// stream is that of several servers. No id is used again.
func (s *sender) stream() *stream {
	made := &stream{}
	for request := range 1 + s.IntN(4) {
		for _, source := range []string{"a", "b"}[:1+s.IntN(2)] {
			s.request(made, source, fmt.Sprint("r", request))
		}
	}
	return made
}

// request adds the outputs of a request. Its final chunks end them, or its end does those that have none.
func (s *sender) request(made *stream, source, id string) {
	var end *saidEnd
	if s.IntN(2) == 0 {
		end = endOf(id, s.one("", "error", "disconnected")).by(source)
	}
	for index := range uint32(1 + s.IntN(3)) {
		o := s.output(source, id, index, end == nil || s.IntN(3) == 0)
		o.end = end
		made.outputs = append(made.outputs, o)
		if end != nil {
			end.chunkCounts = append(end.chunkCounts, o.length())
		}
	}
	if end != nil {
		s.second++
		end.at(s.second)
		made.ends = append(made.ends, end)
	}
}

func (s *sender) output(source, id string, index uint32, final bool) *sentOutput {
	o := &sentOutput{}
	next := uint32(0)
	for range 1 + s.IntN(6) {
		c := s.chunk(100) // its details are as good as any
		c.RequestID, c.OutputIndex, c.source, c.IsFinal = id, index, source, false
		c.number(next).in(s.one("", "x", "y"), byte(s.IntN(256)))
		s.second += 1 + s.Uint64N(3)
		c.during(s.second-s.Uint64N(2), s.second)
		next += uint32(len(c.Frames))
		o.chunks = append(o.chunks, c)
	}
	o.chunks[len(o.chunks)-1].IsFinal = final
	return o
}

// deliver is a network: each step comes, in any order, and some come more than once. It returns how many chunks of them are
// copies.
func (s *sender) deliver(made *stream, without *saidChunk) (steps []step, copies int) {
	for _, o := range made.outputs {
		for _, c := range o.chunks {
			if c == without {
				continue
			}
			steps = append(steps, c)
			for s.IntN(3) == 0 {
				steps = append(steps, c)
				copies += len(c.Frames)
			}
		}
	}
	for _, end := range made.ends {
		for more := true; more; more = s.IntN(3) == 0 {
			steps = append(steps, end)
		}
	}
	s.Shuffle(len(steps), func(i, k int) { steps[i], steps[k] = steps[k], steps[i] })
	return steps, copies
}

// hear takes the steps as so many batches would bring them: each batch has resources of its own.
func (c *conversation) hear(r *rand.Rand, steps []step) {
	for _, s := range steps {
		if r.IntN(3) == 0 {
			clear(c.froms)
		}
		c.second++
		s.do(c)
	}
}

// takeDelivered returns the records of what ended since the last call, in no order and without how often chunks came.
func (c *conversation) takeDelivered() (records []string, tally Tally) {
	ended, tally := c.table.TakeEnded()
	for i := range ended {
		e := &ended[i]
		others := e.output.others
		r := recordOf(e)
		r.DuplicateChunks = record.Count{}
		source, _ := e.Scope().Resource.Attributes().Get(contract.InstanceID)
		values := map[string]any{}
		if others.exists {
			values = others.values.AsRaw()
		}
		records = append(records, fmt.Sprintf("%s of %s, %d chunks%s", showRecord(r, values), source.Str(), r.Chunks.Value,
			showPlace(e.Scope().Scope.Name(), e.Trace().SpanID[0])))
	}
	slices.Sort(records)
	return records, tally
}

func (s *stream) chunks() (chunks int) {
	for _, o := range s.outputs {
		chunks += int(o.length())
	}
	return chunks
}

func checkNothingIsLeft(t *testing.T, table *Table) {
	t.Helper()
	checkInvariants(t, table)
	require.Zero(t, table.recent.Len())
	require.Zero(t, table.waits.Len())
	require.Zero(t, table.Bytes())
}

// Whatever the order in which chunks and ends come, and however often, the records are those of the ordered stream.
func TestAnyOrderGivesTheOrderedRecords(t *testing.T) {
	for seed := range uint64(200) {
		s := &sender{speaker: speaker{Rand: rand.New(rand.NewPCG(seed, 3)), frameBytes: 8}}
		made := s.stream()
		want, empty := made.records(nil, -1)
		for delivery := range 5 {
			steps, copies := s.deliver(made, nil)
			if delivery == 0 {
				steps, copies = made.inOrder(), 0
			}
			c := begin(remembering)
			c.hear(s.Rand, steps)

			got, tally := c.takeDelivered()
			require.Equal(t, want, got, "seed %d, delivery %d", seed, delivery)
			require.Equal(t, Tally{EmptyOutputs: empty}, tally)
			require.Equal(t, made.chunks(), c.outcomes[Accepted])
			require.Equal(t, copies, c.outcomes[Duplicate]+c.outcomes[Late])
			require.Zero(t, c.outcomes[Conflicting])
			checkNothingIsLeft(t, c.table)
		}
	}
}

// inOrder is the stream as its servers sent it.
func (s *stream) inOrder() (steps []step) {
	for _, o := range s.outputs {
		for _, c := range o.chunks {
			steps = append(steps, c)
		}
	}
	for _, end := range s.ends {
		steps = append(steps, end)
	}
	return steps
}

// Of an output that lost a chunk, the record says so, and no other record changes.
func TestALostChunkIsSaid(t *testing.T) {
	lost := 0
	for seed := range uint64(200) {
		s := &sender{speaker: speaker{Rand: rand.New(rand.NewPCG(seed, 4)), frameBytes: 8}}
		made := s.stream()
		for _, o := range made.outputs {
			losable := len(o.chunks)
			if o.hasFinal() || losable == 1 {
				losable-- // without it, nobody knows that the output ended, or that it was there
			}
			for without := range losable {
				lost++
				want, empty := made.records(o, without)
				steps, copies := s.deliver(made, o.chunks[without])
				c := begin(remembering)
				c.hear(s.Rand, steps)
				checkInvariants(t, c.table)
				checkOnlyOneWaits(t, c.table, o)
				early, earlyTally := c.takeDelivered()
				c.table.GiveUpWaiting(c.now())

				got, tally := c.takeDelivered()
				got = append(got, early...)
				slices.Sort(got)
				require.Equal(t, want, got, "seed %d, without %d of %s/%d", seed, without, o.chunks[0].RequestID, o.chunks[0].OutputIndex)
				require.Equal(t, empty, tally.EmptyOutputs+earlyTally.EmptyOutputs)
				missing := len(o.chunks[without].Frames)
				require.EqualValues(t, missing, tally.MissingChunks+earlyTally.MissingChunks)
				require.Equal(t, made.chunks()-missing, c.outcomes[Accepted])
				require.Equal(t, copies, c.outcomes[Duplicate]+c.outcomes[Late])
				checkNothingIsLeft(t, c.table)

				checkWhatWasLostIsLate(t, c, o.chunks[without])
			}
		}
	}
	assert.Greater(t, lost, 1000)
}

// checkOnlyOneWaits checks that nothing waits but the output that lost a chunk, or the end of its request.
func checkOnlyOneWaits(t *testing.T, table *Table, lost *sentOutput) {
	t.Helper()
	require.Equal(t, 1, table.waits.Len())
	for _, w := range table.ends {
		require.Equal(t, lost.chunks[0].RequestID, w.key.request)
		require.False(t, lost.hasFinal())
	}
	for _, o := range table.outputs {
		require.Equal(t, lost.chunks[0].RequestID, o.key.request)
		if lost.hasFinal() {
			require.Equal(t, lost.chunks[0].OutputIndex, o.key.index)
		}
	}
}

// checkWhatWasLostIsLate brings the chunk after all: it makes no ghost of the output.
func checkWhatWasLostIsLate(t *testing.T, c *conversation, lost *saidChunk) {
	t.Helper()
	before := c.outcomes[Late]
	c.hear(rand.New(rand.NewPCG(0, 0)), []step{lost})
	require.Equal(t, before+len(lost.Frames), c.outcomes[Late])
	checkNothingIsLeft(t, c.table)
}

// Outputs that are evicted again and again leave several records each, which add up to what their servers sent: no chunk is
// lost, twice there, or said to be missing.
func TestWhatIsEvictedGoesOn(t *testing.T) {
	for seed := range uint64(200) {
		s := &sender{speaker: speaker{Rand: rand.New(rand.NewPCG(seed, 5)), frameBytes: 8, alwaysText: true}}
		made := s.stream()
		limits := remembering
		limits.Outputs = 1 + int(seed%4)
		c := begin(limits)
		c.hear(s.Rand, s.interleaved(made))
		c.table.GiveUpWaiting(c.now())
		c.table.Flush(1000, c.second*second)
		ended, tally := c.table.TakeEnded()

		require.Equal(t, made.joined(), joinedOf(ended), "seed %d", seed)
		require.Zero(t, tally.MissingChunks)
		for i := range ended {
			require.Zero(t, ended[i].output.missing())
		}
		require.Equal(t, made.chunks(), c.outcomes[Accepted])
		checkNothingIsLeft(t, c.table)
	}
}

// interleaved is a stream whose outputs take turns at random, each of them in order.
func (s *sender) interleaved(made *stream) (steps []step) {
	next := map[*sentOutput]int{}
	for len(steps) < len(made.inOrder())-len(made.ends) {
		o := made.outputs[s.IntN(len(made.outputs))]
		if next[o] < len(o.chunks) {
			steps = append(steps, o.chunks[next[o]])
			next[o]++
		}
	}
	return steps
}

// joined are the texts of the outputs.
func (s *stream) joined() map[outputKey]string {
	texts := map[outputKey]string{}
	for _, o := range s.outputs {
		for _, c := range o.chunks {
			for _, frame := range c.Frames {
				texts[keyOf(c)] += frame
			}
		}
	}
	return texts
}

func keyOf(c *saidChunk) outputKey {
	return outputKey{requestKey{begin(unlimited).from(c.source).Source, c.RequestID}, c.OutputIndex}
}

// joinedOf are the texts of the outputs, of several records each, in the order in which these ended.
func joinedOf(ended []Ended) map[outputKey]string {
	texts := map[outputKey]string{}
	for i := range ended {
		texts[ended[i].output.key] += string(ended[i].output.joined)
	}
	return texts
}

// The speaker's details must be worth the name: without them, the tests above would show little.
func TestSenderSaysEverything(t *testing.T) {
	var finals, ends, many, texts, flags, attributes int
	for seed := range uint64(100) {
		s := &sender{speaker: speaker{Rand: rand.New(rand.NewPCG(seed, 3)), frameBytes: 8}}
		made := s.stream()
		ends += len(made.ends)
		for _, o := range made.outputs {
			for _, c := range o.chunks {
				finals += count(c.IsFinal)
				many += count(len(c.Frames) > 1)
				texts += count(c.HasText)
				flags += count(c.Streaming != chunk.Unknown && c.HasDisaggRequestID)
				attributes += count(c.Others > 0)
			}
		}
	}
	for _, n := range []int{finals, ends, many, texts, flags, attributes} {
		assert.Greater(t, n, 50)
	}
}
