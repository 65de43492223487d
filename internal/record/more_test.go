package record

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

var everything = Include{Delivery: true, Resource: true, Trace: true, FrameTimes: true, Attributes: true}

func mapOf(t *testing.T, raw map[string]any) pcommon.Map {
	t.Helper()
	m := pcommon.NewMap()
	require.NoError(t, m.FromRaw(raw))
	return m
}

// more returns what the line of a record has after the keys that each line has.
func more(t *testing.T, r *Record, include Include, around Surroundings) string {
	t.Helper()
	line := string(new(Encoder).AppendLineWith(nil, r, include, &around))
	require.True(t, json.Valid([]byte(line)), line)
	rest, ok := strings.CutPrefix(line, strings.TrimSuffix(string(new(Encoder).AppendLine(nil, r)), "}\n"))
	require.True(t, ok, "the keys that each line has come first")
	return rest
}

func TestMore(t *testing.T) {
	around := Surroundings{
		Resource: mapOf(t, map[string]any{
			"service.name": "vllm", "service.instance.id": "i-1", "process.pid": int64(7), "host.name": "h", "deployment": "blue",
		}),
		TraceID: pcommon.TraceID{0xAB, 1}, SpanID: pcommon.SpanID{2},
		Attributes: mapOf(t, map[string]any{"model": "m", contract.Text: "no other", "event.name": "nor this", "a": int64(1)}),
	}
	r := &Record{
		Chunks: CountOf(3), MissingChunks: CountOf(1), DuplicateChunks: CountOf(0), FrameTimes: []uint32{0, 1500, math.MaxUint32},
	}
	for _, test := range []struct {
		name    string
		include Include
		want    string
	}{
		{"nothing", Include{}, ""},
		{"delivery", Include{Delivery: true}, `,"chunks":3,"missing_chunks":1,"duplicate_chunks":0`},
		{
			"what identifies the source", Include{Resource: true},
			`,"resource":{"process.pid":7,"service.instance.id":"i-1","service.name":"vllm"}`,
		},
		{
			"the place in a trace", Include{Trace: true},
			`,"trace_id":"ab010000000000000000000000000000","span_id":"0200000000000000"`,
		},
		{"frame times", Include{FrameTimes: true}, `,"frame_times":[0,1500,4294967295]`},
		{"the other attributes", Include{Attributes: true}, `,"attributes":{"a":1,"model":"m"}`},
		{
			"everything, in this order", everything,
			`,"chunks":3,"missing_chunks":1,"duplicate_chunks":0` +
				`,"resource":{"process.pid":7,"service.instance.id":"i-1","service.name":"vllm"}` +
				`,"trace_id":"ab010000000000000000000000000000","span_id":"0200000000000000"` +
				`,"frame_times":[0,1500,4294967295],"attributes":{"a":1,"model":"m"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want+"}\n", more(t, r, test.include, around))
		})
	}
}

func TestMoreThatIsNotKnown(t *testing.T) {
	nowhere := Surroundings{Resource: pcommon.NewMap(), Attributes: pcommon.NewMap()}
	assert.Equal(t, `,"chunks":null,"missing_chunks":null,"duplicate_chunks":null,"resource":{},"trace_id":null,"span_id":null,`+
		`"frame_times":null,"attributes":{}}`+"\n", more(t, &Record{}, everything, nowhere))
	assert.Equal(t, `,"frame_times":[]}`+"\n", more(t, &Record{FrameTimes: []uint32{}}, Include{FrameTimes: true}, nowhere),
		"kept, of an output without frames")
}

func TestValues(t *testing.T) {
	for _, test := range []struct {
		name, want string
		value      any
	}{
		{"a string is escaped as in texts", `"a\"\n\u0001é\ud83d�"`, "a\"\n\x01é\xed\xa0\xbd\xff"},
		{"the smallest integer", "-9223372036854775808", int64(math.MinInt64)},
		{"a double", "2.5", 2.5},
		{"a large double", "1e+300", 1e300},
		{"no number", `"NaN"`, math.NaN()},
		{"infinity", `"+Inf"`, math.Inf(1)},
		{"the other one", `"-Inf"`, math.Inf(-1)},
		{"a boolean", "true", true},
		{"bytes", `"AP8="`, []byte{0, 255}},
		{"no bytes", `""`, []byte{}},
		{"none", "null", nil},
		{"an array", `[1,"a",[],{}]`, []any{int64(1), "a", []any{}, map[string]any{}}},
		{"a map in order of its keys", `{"a":{"c":null},"b":[true]}`, map[string]any{"b": []any{true}, "a": map[string]any{"c": nil}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			around := Surroundings{Attributes: mapOf(t, map[string]any{"k": test.value})}
			assert.Equal(t, `,"attributes":{"k":`+test.want+"}}\n", more(t, &Record{}, Include{Attributes: true}, around))
		})
	}
}

// OTLP does not rule out that a key comes twice, and readers of JSON do not agree what that means.
func TestKeyThatComesTwice(t *testing.T) {
	attributes := pcommon.NewMap()
	attributes.PutStr("k", "first")
	attributes.PutStr("l", "x")
	attributes.CopyTo(attributes)
	twice := func(yield func(string, pcommon.Value) bool) {
		for range 2 {
			for key, value := range attributes.All() {
				if !yield(key, value) {
					return
				}
			}
			attributes.PutStr("k", "last")
		}
	}
	assert.Equal(t, `{"k":"last","l":"x"}`, string(appendObject(nil, twice)))
}

func TestReadDelivery(t *testing.T) {
	raw := map[string]any{
		contract.RequestID: "r", contract.Text: "t", contract.Chunks: int64(3), contract.MissingChunks: int64(0),
		contract.FrameTimes: []byte{1, 0, 0, 0, 0, 1, 0, 0},
	}
	read := func(include Include, raw map[string]any) (*Record, error) {
		return (&Reader{Include: include}).Read(mapOf(t, raw), 1, 2)
	}
	r, err := read(everything, raw)
	require.NoError(t, err)
	assert.Equal(t, CountOf(3), r.Chunks)
	assert.Equal(t, CountOf(0), r.MissingChunks)
	assert.Equal(t, Count{}, r.DuplicateChunks)
	assert.Equal(t, []uint32{1, 256}, r.FrameTimes)

	r, err = read(Include{}, raw)
	require.NoError(t, err)
	assert.Equal(t, Count{}, r.Chunks, "nobody asked for it")
	assert.Nil(t, r.FrameTimes)

	for key, value := range map[string]any{
		contract.Chunks: "3", contract.MissingChunks: int64(-1), contract.DuplicateChunks: 1.5, contract.FrameTimes: []byte{1},
	} {
		wrong := map[string]any{contract.RequestID: "r", contract.Text: "t", key: value}
		_, err = read(everything, wrong)
		assert.ErrorContains(t, err, key)
		_, err = read(Include{}, wrong)
		assert.NoError(t, err, "what nobody asked for may hold anything")
	}
}

// A Reader that is used again shows nothing of the record before.
func TestReadDeliveryAgain(t *testing.T) {
	d := Reader{Include: everything}
	_, err := d.Read(mapOf(t, map[string]any{
		contract.RequestID: "r", contract.Text: "t", contract.Chunks: int64(3), contract.FrameTimes: []any{int64(1)},
	}), 1, 2)
	require.NoError(t, err)
	r, err := d.Read(mapOf(t, map[string]any{contract.RequestID: "r", contract.Text: "t"}), 1, 2)
	require.NoError(t, err)
	assert.Equal(t, Count{}, r.Chunks)
	assert.Nil(t, r.FrameTimes)
}

// What Put puts is what Read reads.
func TestDeliveryThereAndBack(t *testing.T) {
	want := Record{
		RequestID: "r", Text: "ab", Frames: []string{"a", "b"},
		Chunks: CountOf(2), MissingChunks: CountOf(math.MaxInt32), DuplicateChunks: CountOf(5), FrameTimes: []uint32{7, math.MaxUint32},
	}
	attributes := pcommon.NewMap()
	want.Put(attributes, Arrays)
	got, err := (&Reader{Include: everything}).Read(attributes, 0, 0)
	require.NoError(t, err)
	assert.Equal(t, want, *got)

	want.FrameTimes, want.Frames = []uint32{}, nil // kept, of an output without frames
	attributes = pcommon.NewMap()
	want.Put(attributes, Arrays)
	got, err = (&Reader{Include: everything}).Read(attributes, 0, 0)
	require.NoError(t, err)
	assert.Equal(t, []uint32{}, got.FrameTimes)
}
