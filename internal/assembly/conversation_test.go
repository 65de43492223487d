package assembly

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// A conversation is what a table hears, step by step, and what it says: the records of the outputs that ended. The n-th
// step comes in second n, by the sender's clock and the Collector's.
type conversation struct {
	table    *Table
	froms    map[string]*From
	second   uint64
	outcomes [Conflicting + 1]int // of chunks
	tally    Tally                // of all steps said
}

type step interface{ do(*conversation) }

const second = uint64(time.Second)

// unlimited are limits that no conversation comes near.
var unlimited = Options{Outputs: 1000, Bytes: 1 << 40, OutputBytes: 1 << 40}

func begin(limits Options) *conversation {
	return &conversation{table: NewTable(limits), froms: map[string]*From{}}
}

// say takes the steps, and returns the records of what ended with them, and how many others ended empty.
func (c *conversation) say(steps ...step) (said []string, empty int) {
	for _, s := range steps {
		c.second++
		s.do(c)
	}
	ended, tally := c.table.TakeEnded()
	c.tally.EmptyOutputs += tally.EmptyOutputs
	c.tally.MissingChunks += tally.MissingChunks
	c.tally.EmitterDropped += tally.EmitterDropped
	return showAll(ended), tally.EmptyOutputs
}

func (c *conversation) now() time.Time { return time.Unix(int64(c.second), 0) }

// from returns where the chunks of a source come from, always the same for the same.
func (c *conversation) from(source string) *From { return c.fromScope(source, "") }

// fromScope does so for one of a source's scopes.
func (c *conversation) fromScope(source, scope string) *From {
	key := source + "/" + scope
	if c.froms[key] == nil {
		resource, instrumentation := pcommon.NewResource(), pcommon.NewInstrumentationScope()
		resource.Attributes().PutStr(contract.InstanceID, source)
		instrumentation.SetName(scope)
		c.froms[key] = &From{
			Source: SourceOf(resource.Attributes()),
			Scope:  signal.Scope{Resource: resource, Scope: instrumentation},
		}
	}
	return c.froms[key]
}

// saidChunk is the step of a chunk record.
type saidChunk struct {
	chunk.Chunk
	source      string
	scope       string
	span        byte
	first, last uint64 // in seconds; 0 is the step's
}

// chunkOf begins a step: a record of the frames, one for each chunk in it, none for one without text.
func chunkOf(request string, frames ...string) *saidChunk {
	if len(frames) == 0 {
		frames = []string{""}
	}
	return &saidChunk{Chunk: chunk.Chunk{RequestID: request, Frames: frames}}
}

func (s *saidChunk) index(index uint32) *saidChunk        { s.OutputIndex = index; return s }
func (s *saidChunk) final() *saidChunk                    { s.IsFinal = true; return s }
func (s *saidChunk) text(text string) *saidChunk          { s.Text, s.HasText = text, true; return s }
func (s *saidChunk) tokens(ids ...uint32) *saidChunk      { s.TokenIDs = ids; return s }
func (s *saidChunk) aborted(f chunk.Flag) *saidChunk      { s.Aborted = f; return s }
func (s *saidChunk) streaming(f chunk.Flag) *saidChunk    { s.Streaming = f; return s }
func (s *saidChunk) by(source string) *saidChunk          { s.source = source; return s }
func (s *saidChunk) during(first, last uint64) *saidChunk { s.first, s.last = first, last; return s }
func (s *saidChunk) at(second uint64) *saidChunk          { return s.during(second, second) }

// number sets the index of the record's first chunk.
func (s *saidChunk) number(index uint32) *saidChunk { s.Index, s.Numbered = index, true; return s }

// in sets the scope and the span that the record is in.
func (s *saidChunk) in(scope string, span byte) *saidChunk { s.scope, s.span = scope, span; return s }

// dropped sets how many chunks the sender says to have dropped.
func (s *saidChunk) dropped(chunks uint32) *saidChunk { s.EmitterDropped = chunks; return s }

// aged sets how many microseconds before the record's time each of its chunks came.
func (s *saidChunk) aged(ages ...uint64) *saidChunk { s.Ages = ages; return s }

// disagg sets the disaggregated request id; empty is null.
func (s *saidChunk) disagg(id string) *saidChunk {
	s.DisaggRequestID, s.HasDisaggRequestID = id, true
	return s
}

// with adds attributes of the record, as the decoder counts them.
func (s *saidChunk) with(raw map[string]any) *saidChunk {
	s.Attributes, s.Others = pcommon.NewMap(), 0
	if err := s.Attributes.FromRaw(raw); err != nil {
		panic(err)
	}
	for key := range raw {
		if chunk.IsOther(key) {
			s.Others++
		}
	}
	return s
}

func (s *saidChunk) do(c *conversation) {
	it := s.Chunk
	it.StartedAt, it.Time = s.first*second, s.last*second
	if s.last == 0 {
		it.StartedAt, it.Time = c.second*second, c.second*second
	}
	if len(it.Ages) > 0 {
		it.StartedAt = it.Time - it.Ages[0]*uint64(time.Microsecond)
	}
	outcome := c.table.Add(c.fromScope(s.source, s.scope), signal.Trace{SpanID: pcommon.SpanID{s.span}}, &it, c.now())
	c.outcomes[outcome] += len(it.Frames)
}

// saidEnd is the step of a request end.
type saidEnd struct {
	request, reason, source string
	second                  uint64 // 0 is the step's
	chunkCounts             []uint32
}

func endOf(request, reason string) *saidEnd { return &saidEnd{request: request, reason: reason} }

func (s *saidEnd) by(source string) *saidEnd { s.source = source; return s }
func (s *saidEnd) at(second uint64) *saidEnd { s.second = second; return s }

// counts sets how many chunks each output had.
func (s *saidEnd) counts(chunks ...uint32) *saidEnd { s.chunkCounts = chunks; return s }

func (s *saidEnd) do(c *conversation) {
	at := s.second
	if at == 0 {
		at = c.second
	}
	end := chunk.End{RequestID: s.request, Reason: s.reason, Time: at * second, ChunkCounts: slices.Clone(s.chunkCounts)}
	c.table.EndRequest(c.from(s.source).Source, &end, c.now())
	clear(end.ChunkCounts) // they belong to the decoder, which uses them again
}

// idleFor is the step of a timer: it ends what has been idle for so many seconds.
type idleFor uint64

func (idle idleFor) do(c *conversation) {
	c.table.Expire(c.now().Add(-time.Duration(idle)*time.Second), c.second*second)
}

// giveUp is the step of a timer: it ends the waits for missing chunks that have lasted so many seconds.
type giveUp uint64

func (after giveUp) do(c *conversation) {
	c.table.GiveUpWaiting(c.now().Add(-time.Duration(after) * time.Second))
}

// flush is the step of a shutdown, that many outputs.
type flush int

func (most flush) do(c *conversation) { c.table.Flush(int(most), c.second*second) }

// hold is the step of a caller that holds so many bytes of records.
type hold int64

func (bytes hold) do(c *conversation) { c.table.Hold(int64(bytes)) }

// makeRoom is the step of a caller that holds more and waits for no chunk.
type makeRoom struct{}

func (makeRoom) do(c *conversation) { c.table.MakeRoom(c.second * second) }

func show(e *Ended) string {
	others := pcommon.NewMap()
	e.PutOthers(others)
	return showRecord(recordOf(e), others.AsRaw()) + showPlace(e.Scope().Scope.Name(), e.Trace().SpanID[0])
}

// showPlace writes the scope and the span that an output began in.
func showPlace(scope string, span byte) string {
	if scope == "" && span == 0 {
		return ""
	}
	return fmt.Sprintf(" in %s/%d", scope, span)
}

// showRecord writes a record for people: what is as usual is left out.
func showRecord(r record.Record, others map[string]any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d %d-%d %s [", r.RequestID, r.OutputIndex, r.StartedAt/second, r.FinishedAt/second, short(r.Text))
	for i, frame := range r.Frames {
		b.WriteString(strings.Repeat(" ", min(i, 1)) + short(frame))
	}
	b.WriteString("]")
	add := func(condition bool, format string, args ...any) {
		if condition {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	add(len(r.TokenIDs) > 0, "tokens%v", r.TokenIDs)
	add(r.Streaming, "streaming")
	add(r.Aborted, "aborted")
	add(r.DisaggRequestID != "", "disagg=%s", r.DisaggRequestID)
	add(r.Partial, "partial")
	add(r.HasEndReason, "reason=%q", r.EndReason)
	add(!r.FramesConsistent, "inconsistent")
	add(r.MissingChunks.Value > 0, "missing=%d", r.MissingChunks.Value)
	add(r.DuplicateChunks.Value > 0, "duplicates=%d", r.DuplicateChunks.Value)
	add(len(r.FrameTimes) > 0, "times%v", r.FrameTimes)
	add(len(others) > 0, "%v", others)
	return b.String()
}

// short quotes a text, and of a long one tells the length.
func short(text string) string {
	if len(text) > 20 {
		return fmt.Sprintf("%.1q*%d", text, len(text))
	}
	return fmt.Sprintf("%q", text)
}

// conversationTest expects that steps end with these records, in this order.
type conversationTest struct {
	name    string
	limits  Options // zero is unlimited
	steps   []step
	want    []string
	empty   int // outputs that ended with nothing to write
	left    int // outputs still in flight
	waiting int // request ends that wait

	duplicate, late, conflicting int // chunks

	missing        int64 // chunks, of those that ended
	emitterDropped int64
}

func runConversations(t *testing.T, tests []conversationTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.limits == (Options{}) {
				test.limits = unlimited
			}
			c := begin(test.limits)
			said, _ := c.say(test.steps...)
			assert.Equal(t, test.want, said)
			assert.Equal(t, test.left, c.table.Len(), "left in flight")
			assert.Len(t, c.table.ends, test.waiting, "request ends that wait")
			assert.Equal(t, test.duplicate, c.outcomes[Duplicate], "duplicate chunks")
			assert.Equal(t, test.late, c.outcomes[Late], "late chunks")
			assert.Equal(t, test.conflicting, c.outcomes[Conflicting], "conflicting chunks")
			assert.Equal(t, Tally{test.empty, test.missing, test.emitterDropped}, c.tally)
			checkInvariants(t, c.table)
		})
	}
}

// checkInvariants checks what is true of a table after each step.
func checkInvariants(t *testing.T, table *Table) {
	t.Helper()
	require.LessOrEqual(t, table.recent.Len(), table.options.Outputs)
	require.LessOrEqual(t, table.Bytes(), max(table.options.Bytes-table.held, 0))
	if table.recent.Len() == 0 {
		require.Zero(t, table.Bytes(), "nothing takes nothing")
		require.Empty(t, table.requests)
		require.Empty(t, table.origins)
	}
	require.Equal(t, len(table.outputs)+len(table.ends), table.recent.Len())
	checkRecent(t, table)
	checkWaits(t, table)
	checkBytes(t, table)
	checkRequests(t, table)
	for _, w := range table.ends {
		checkEnd(t, table, w)
	}
	for _, o := range table.outputs {
		checkSequence(t, o)
	}
}

// must fails the test where something is not as it must be. It costs nothing where it is: tables are checked often.
func must(t *testing.T, is bool, what string) {
	if !is {
		t.Helper()
		t.Fatal("not so: " + what)
	}
}

// checkRecent checks that the list has what the maps have, each at its place, in the order of the updates.
func checkRecent(t *testing.T, table *Table) {
	t.Helper()
	var touched time.Time
	var order uint64
	for e := table.recent.Front(); e != nil; e = e.Next() {
		h := e.Value.(holder)
		must(t, h.hold().recent == e, "it knows its place in the list")
		must(t, !h.hold().touched.Before(touched), "the least recently updated is first, by the clock")
		touched = h.hold().touched
		switch h := h.(type) {
		case *output:
			must(t, table.outputs[h.key] == h, "an output in the list is in the map")
			must(t, h.order > order, "the least recently updated is first, by number")
			order = h.order
		case *requestEnd:
			must(t, table.ends[h.key] == h, "a request end in the list is in the map")
		}
	}
}

// checkWaits checks that the request ends wait, and the outputs whose final chunk came, and nobody else.
func checkWaits(t *testing.T, table *Table) {
	t.Helper()
	want := len(table.ends)
	for _, o := range table.outputs {
		must(t, (o.finalEnd != 0) == (o.waits != nil), "an output waits where its final chunk came")
		want += count(o.waits != nil)
	}
	must(t, table.waits.Len() == want, "those wait that have to, and no others")
	var since time.Time
	for e := table.waits.Front(); e != nil; e = e.Next() {
		h := e.Value.(holder).hold()
		must(t, h.waits == e, "it knows its place among those that wait")
		must(t, !h.waitingSince.Before(since), "who waits longest is first")
		since = h.waitingSince
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// checkBytes checks that the bytes are those of all that is held, to the last one.
func checkBytes(t *testing.T, table *Table) {
	t.Helper()
	bytes, users := int64(0), map[*origin]int{}
	for _, o := range table.outputs {
		must(t, o.size == o.measure(), "an output counts for what it takes")
		bytes += o.size
		users[o.origin]++
	}
	for _, w := range table.ends {
		must(t, w.size > 0, "a request end counts")
		bytes += w.size
	}
	for o, n := range users {
		must(t, o.users == n, "an origin has as many users as there are outputs that began in it")
		bytes += o.size
	}
	require.Equal(t, bytes, table.Bytes())
}

// checkRequests checks that requests know their outputs, and these the end that waits for them.
func checkRequests(t *testing.T, table *Table) {
	t.Helper()
	outputs := 0
	for _, siblings := range table.requests {
		must(t, len(siblings) > 0, "a request has outputs")
		outputs += len(siblings)
	}
	must(t, outputs == len(table.outputs), "each output is in its request once")
	for _, o := range table.outputs {
		must(t, table.requests[o.key.requestKey][o.slot] == o, "an output knows its place in its request")
		w := table.ends[o.key.requestKey]
		if w != nil && o.startedAt > w.at {
			w = nil
		}
		must(t, o.awaitedBy == w, "an end waits for the outputs that began no later, and for no others")
	}
}

// checkEnd checks that a request end that waits has something to wait for.
func checkEnd(t *testing.T, table *Table, w *requestEnd) {
	t.Helper()
	unmet := 0
	for index, met := range w.met {
		unmet += count(!met)
		if o := table.outputs[outputKey{w.key, uint32(index)}]; !met && o != nil && o.awaitedBy == w {
			must(t, o.next < w.counts[index] && o.finalEnd == 0, "a count that is met is known to be")
		}
	}
	must(t, unmet == w.unmet, "unmet counts are counted")
	must(t, unmet > 0, "an end with nothing to wait for does not wait")
}

// checkSequence checks that the chunks that wait are beyond a hole and in order, and that all are counted.
func checkSequence(t *testing.T, o *output) {
	t.Helper()
	must(t, o.next >= o.base, "chunks are counted from the base on")
	must(t, o.next > o.base || len(o.waiting) > 0, "an output has chunks")
	at, chunks, bytes, first := o.next, o.next-o.base, int64(0), o.base
	for i, a := range o.waiting {
		must(t, a.first > at || i > 0 && a.first == at, "who waits is in order, and beyond a hole")
		at = a.end()
		chunks += uint32(len(a.chunk.Frames))
		bytes += a.size
	}
	if o.next == o.base {
		first = o.waiting[0].first
	}
	must(t, first == o.first, "the lowest index that came is known")
	must(t, chunks == o.chunks, "the chunks that came are counted")
	must(t, bytes == o.aheadBytes, "what waits is counted")
	must(t, at == o.end() && at <= contract.MaxIndex, "no index is beyond what the contract allows")
	must(t, !o.isFinished(), "what is finished has ended")
	must(t, o.finalEnd == 0 || o.finalEnd == at && len(o.waiting) > 0, "the final chunk is the last one, and waits")
}

func recordOf(e *Ended) record.Record {
	var r record.Record
	e.Fill(&r)
	return r
}
