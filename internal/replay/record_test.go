package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
)

const second = 1_000_000_000

// chunkOf is an event of output 0 of a request, in seconds.
func chunkOf(request ID, at uint64, diff Text) Event {
	return Event{Type: TypeChunk, Time: at * second, RequestID: request, DisaggRequestID: "null", TextDiff: diff}
}

func endOf(request ID, at uint64, reason Text) Event {
	return Event{Type: TypeRequestEnd, Time: at * second, RequestID: request, Reason: reason}
}

// final makes the event the last one of its output.
func final(e Event) Event { e.IsFinal = true; return e }

// ofOutput makes the event one of another output.
func ofOutput(index int64, e Event) Event { e.OutputIndex = index; return e }

// only returns the attributes of the only record of events as a log.
func only(t *testing.T, options Options, events ...Event) pcommon.Map {
	t.Helper()
	records := Records(events, options)
	require.Len(t, records, 1)
	return onlyLog(t, Logs(records, nil)).Attributes()
}

func onlyLog(t *testing.T, logs plog.Logs) plog.LogRecord {
	t.Helper()
	require.Equal(t, 1, logs.LogRecordCount())
	return logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
}

func TestRunsOfChunks(t *testing.T) {
	a, b := chunkOf("1", 0, "x"), chunkOf("2", 0, "x")
	for _, test := range []struct {
		name   string
		most   int
		events []Event
		want   []int
	}{
		{"nothing", 3, nil, nil},
		{"of one output", 3, []Event{a, a, a}, []int{3}},
		{"as many as allowed", 3, []Event{a, a, a, a, a, a, a}, []int{3, 3, 1}},
		{"one at a time", 1, []Event{a, a}, []int{1, 1}},
		{"no number is one", 0, []Event{a, a}, []int{1, 1}},
		{"only those that follow each other", 3, []Event{a, b, a, a, b, b}, []int{1, 1, 2, 2}},
		{"of one output of a request", 3, []Event{a, ofOutput(1, a), ofOutput(1, a)}, []int{1, 2}},
		{"not beyond a final chunk", 3, []Event{a, final(a), a, a}, []int{2, 2}},
		{"not with a request's end", 3, []Event{a, endOf("1", 0, ""), a, endOf("1", 0, ""), endOf("1", 0, "")}, []int{1, 1, 1, 1, 1}},
		{"an int and a string are two ids", 3, []Event{a, chunkOf(`"1"`, 0, "x")}, []int{1, 1}},
	} {
		for _, form := range []Form{Array, Packed} {
			t.Run(fmt.Sprintf("%s/%s", test.name, form), func(t *testing.T) {
				var lengths []int
				for _, r := range Records(test.events, Options{Form: form, ChunksPerRecord: test.most}) {
					lengths = append(lengths, r.Len())
				}
				assert.Equal(t, test.want, lengths)
			})
		}
	}
	t.Run("single", func(t *testing.T) {
		assert.Len(t, Records([]Event{a, a, a}, Options{Form: Single, ChunksPerRecord: 3}), 3)
	})
}

func TestForms(t *testing.T) {
	first, second, third := chunkOf("1", 10, "é"), chunkOf("1", 11, ""), final(chunkOf("1", 12, "b"))
	first.TokenIDsDiff, third.TokenIDsDiff = []uint32{1, 2}, []uint32{math.MaxUint32}
	events := []Event{first, second, third}
	common := map[string]any{
		contract.RequestID: int64(1), contract.DisaggRequestID: nil, contract.OutputIndex: int64(0),
		contract.IsFinal: true, contract.Aborted: false, contract.Streaming: false,
	}
	with := func(others map[string]any) map[string]any {
		for key, value := range common {
			others[key] = value
		}
		return others
	}
	t.Run("single", func(t *testing.T) {
		assert.Equal(t, with(map[string]any{
			contract.TextDiff: "b", contract.TokenIDsDiff: []any{int64(math.MaxUint32)},
		}), only(t, Options{Form: Single, FullText: NoChunk}, third).AsRaw())
	})
	t.Run("array", func(t *testing.T) {
		assert.Equal(t, with(map[string]any{
			contract.TextDiff:     []any{"é", "", "b"},
			contract.FrameAges:    []any{int64(2_000_000), int64(1_000_000), int64(0)},
			contract.TokenIDsDiff: []any{int64(1), int64(2), int64(math.MaxUint32)},
		}), only(t, Options{Form: Array, ChunksPerRecord: 3, FullText: NoChunk}, events...).AsRaw())
	})
	t.Run("packed", func(t *testing.T) {
		assert.Equal(t, with(map[string]any{
			contract.TextDiff:     "éb",
			contract.FrameLengths: []byte{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
			contract.FrameAges:    []byte{0x80, 0x84, 0x1e, 0, 0x40, 0x42, 0x0f, 0, 0, 0, 0, 0},
			contract.TokenIDsDiff: []byte{1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255},
		}), only(t, Options{Form: Packed, ChunksPerRecord: 3, FullText: NoChunk}, events...).AsRaw())
	})
}

func TestTextThatIsNotUTF8GoesAsBytes(t *testing.T) {
	e := final(chunkOf("1", 1, high))
	e.Text = "a" + high
	for form, want := range map[Form]any{Single: []byte(high), Array: []any{[]byte(high)}, Packed: []byte(high)} {
		raw := only(t, Options{Form: form, ChunksPerRecord: 1, FullText: FinalChunk}, e).AsRaw()
		assert.Equal(t, want, raw[contract.TextDiff], form)
		assert.Equal(t, []byte("a"+high), raw[contract.Text], form)
	}
}

func TestFullText(t *testing.T) {
	more, last := chunkOf("1", 1, "a"), final(chunkOf("1", 2, "b"))
	more.Text, last.Text = "a", "ab"
	for _, test := range []struct {
		full       FullText
		more, last any
	}{
		{EveryChunk, "a", "ab"},
		{FinalChunk, nil, "ab"},
		{NoChunk, nil, nil},
	} {
		options := Options{Form: Array, ChunksPerRecord: 2, FullText: test.full}
		assert.Equal(t, test.more, only(t, options, more).AsRaw()[contract.Text], test.full)
		assert.Equal(t, test.last, only(t, options, last).AsRaw()[contract.Text], test.full)
		assert.Equal(t, test.last, only(t, options, more, last).AsRaw()[contract.Text], "after the last chunk in the record")
	}
}

// Flags and ids of a record are those of its last chunk: the last value in the output's order counts.
func TestFlagsOfTheLastChunk(t *testing.T) {
	first, last := chunkOf("1", 1, "a"), final(chunkOf("1", 2, "b"))
	first.Aborted, first.DisaggRequestID = true, "7"
	last.Streaming, last.DisaggRequestID = true, "8"
	raw := only(t, Options{Form: Packed, ChunksPerRecord: 2}, first, last).AsRaw()
	assert.Equal(t, false, raw[contract.Aborted])
	assert.Equal(t, true, raw[contract.Streaming])
	assert.Equal(t, true, raw[contract.IsFinal])
	assert.Equal(t, int64(8), raw[contract.DisaggRequestID])
}

func TestIDs(t *testing.T) {
	for _, test := range []struct {
		json string
		want any
	}{
		{`30`, int64(30)},
		{`-1`, int64(-1)},
		{`9223372036854775807`, int64(math.MaxInt64)},
		{`18446744073709551615`, "18446744073709551615"}, // OTLP has no such int
		{`"30"`, "30"},
		{`"chatcmpl-1"`, "chatcmpl-1"},
		{`"\u00e9\"\\"`, `é"\`},
		{`""`, ""},
		{`"null"`, "null"},
		{`null`, nil},
	} {
		t.Run(test.json, func(t *testing.T) {
			line := fmt.Sprintf(`{"type":"chunk","request_id":1,"disagg_request_id": %s }`, test.json)
			events, err := Read(strings.NewReader(line))
			require.NoError(t, err)
			v, ok := only(t, Options{Form: Single}, events...).Get(contract.DisaggRequestID)
			require.True(t, ok, "null is a value, and not the want of one")
			assert.Equal(t, test.want, v.AsRaw())
		})
	}
}

func TestRequestEnd(t *testing.T) {
	for _, reason := range []Text{"", "error"} {
		assert.Equal(t, map[string]any{contract.RequestID: "r", contract.EndReason: string(reason)},
			only(t, Options{Form: Packed, ChunksPerRecord: 9}, endOf(`"r"`, 1, reason)).AsRaw())
	}
}

// TestRecordsAreWellFormed decodes what comes of a stream, in each form: nothing may be malformed.
func TestRecordsAreWellFormed(t *testing.T) {
	events := []Event{
		chunkOf("1", 5, "a"), chunkOf("1", 6, high), chunkOf("1", 6, ""), final(chunkOf("1", 7, "b")), chunkOf(`"r"`, 8, "c"),
		endOf(`"r"`, 9, ""), endOf(`"s"`, 9, "error"), endOf(`"t"`, 9, "a reason that is not UTF-8: "+high),
	}
	for _, form := range []Form{Single, Array, Packed} {
		t.Run(string(form), func(t *testing.T) {
			var d chunk.Decoder
			logs := Logs(Records(events, Options{Form: form, ChunksPerRecord: 4, FullText: EveryChunk}), nil)
			for _, log := range logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
				var err error
				if log.EventName() == contract.EventRequestEnd {
					_, err = d.End(log.Attributes(), 0)
				} else {
					_, err = d.Chunk(log.Attributes(), chunk.Times{Last: uint64(log.Timestamp())})
				}
				assert.NoError(t, err)
			}
		})
	}
}

// startOf returns the start that a receiver finds for a record of the events, as the line has it.
func startOf(t *testing.T, form Form, events ...Event) string {
	t.Helper()
	log := onlyLog(t, Logs(Records(events, Options{Form: form, ChunksPerRecord: len(events)}), nil))
	var d chunk.Decoder
	c, err := d.Chunk(log.Attributes(), chunk.Times{Last: uint64(log.Timestamp())})
	require.NoError(t, err)
	return string(record.AppendTime(nil, c.StartedAt))
}

// TestAges: the age of its first chunk must give a record the start that the chunk alone would have on the line, to the
// microsecond, whatever the nanoseconds are.
func TestAges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	times := [][2]uint64{{5 * second, 5 * second}, {5*second + 1, 5*second + 1_000_000}, {5*second + 999, 5*second + 1000}, {1, 999}}
	for range 100 {
		first := random.Uint64N(100 * second)
		times = append(times, [2]uint64{first, first + random.Uint64N(1000*second)})
	}
	for _, form := range []Form{Array, Packed} {
		for _, pair := range times {
			first, last := chunkOf("1", 0, "a"), chunkOf("1", 0, "b")
			first.Time, last.Time = pair[0], pair[1]
			if !assert.Equal(t, string(record.AppendTime(nil, first.Time)), startOf(t, form, first, last), "%s: %v", form, pair) {
				return
			}
		}
	}
}

// The largest age still fits.
func TestLargestAge(t *testing.T) {
	for _, form := range []Form{Array, Packed} {
		first, last := chunkOf("1", 0, "a"), chunkOf("1", 0, "b")
		first.Time, last.Time = 5*second, 5*second+math.MaxUint32*1000
		assert.Equal(t, "1970-01-01T00:00:05+00:00", startOf(t, form, first, last), form)
	}
}

// A packed age is from 0 to 4294 seconds. Chunks of which it cannot tell (after a pause of more than an hour; by a clock that was
// set back) must not share a record, or its start is wrong.
func TestAgesThatDoNotFit(t *testing.T) {
	for _, pair := range [][2]uint64{{10_000, 20_000}, {10_000, 9999}} {
		for _, form := range []Form{Array, Packed} {
			events := []Event{chunkOf("1", pair[0], "a"), chunkOf("1", pair[1], "b")}
			log := Logs(Records(events, Options{Form: form, ChunksPerRecord: 2}), nil).ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
			var d chunk.Decoder
			c, err := d.Chunk(log.Attributes(), chunk.Times{Last: uint64(log.Timestamp())})
			require.NoError(t, err)
			assert.Equal(t, pair[0]*second, c.StartedAt, "%s: %v", form, pair)
		}
	}
}

func TestLogs(t *testing.T) {
	events := []Event{chunkOf("1", 1, "a"), final(chunkOf("1", 2, "b")), endOf("1", 3, "")}
	logs := Logs(Records(events, Options{Form: Array, ChunksPerRecord: 2}), map[string]string{"service.name": "s"})
	assert.Equal(t, map[string]any{"service.name": "s"}, logs.ResourceLogs().At(0).Resource().Attributes().AsRaw())
	records := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	require.Equal(t, 2, records.Len())
	assert.Equal(t, contract.EventChunk, records.At(0).EventName())
	assert.Equal(t, pcommon.Timestamp(2*second), records.At(0).Timestamp(), "the time of the last chunk")
	assert.Equal(t, contract.EventRequestEnd, records.At(1).EventName())
	assert.Equal(t, pcommon.Timestamp(3*second), records.At(1).Timestamp())
}

func TestTraces(t *testing.T) {
	events := []Event{chunkOf("1", 1, "a"), final(chunkOf("1", 2, "b")), endOf("1", 3, ""), chunkOf("2", 3, "c")}
	traces := Traces(Records(events, Options{Form: Array, ChunksPerRecord: 2}), map[string]string{"service.name": "s"})
	assert.Equal(t, map[string]any{"service.name": "s"}, traces.ResourceSpans().At(0).Resource().Attributes().AsRaw())
	spans := traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	require.Equal(t, 3, spans.Len())
	assert.Equal(t, contract.EventChunk, spans.At(0).Name())
	assert.Equal(t, pcommon.Timestamp(1*second), spans.At(0).StartTimestamp(), "the time of the first chunk")
	assert.Equal(t, pcommon.Timestamp(2*second), spans.At(0).EndTimestamp(), "the time of the last one")
	assert.Equal(t, contract.EventRequestEnd, spans.At(1).Name())
	assert.Equal(t, spans.At(0).TraceID(), spans.At(1).TraceID(), "a request has one trace")
	assert.NotEqual(t, spans.At(0).TraceID(), spans.At(2).TraceID(), "and another request another")
	assert.Equal(t, only(t, Options{Form: Array, ChunksPerRecord: 2}, events[:2]...).AsRaw(), spans.At(0).Attributes().AsRaw(),
		"the same attributes as of a log")
	ids := map[pcommon.SpanID]bool{}
	for _, span := range spans.All() {
		assert.False(t, span.TraceID().IsEmpty())
		assert.False(t, span.SpanID().IsEmpty())
		ids[span.SpanID()] = true
	}
	assert.Len(t, ids, spans.Len(), "each span has its own id")
}
