package chunk

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/attr"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// raw are attributes as Go values, nil for one without a value.
type raw map[string]any

// readOnly makes attributes that a decoder must not change: it panics if it tries.
func (r raw) readOnly(t testing.TB) pcommon.Map {
	t.Helper()
	logs := plog.NewLogs()
	attributes := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Attributes()
	require.NoError(t, attributes.FromRaw(r))
	logs.MarkReadOnly()
	return attributes
}

// and returns the attributes with others on top.
func (r raw) and(others raw) raw {
	all := maps.Clone(r)
	maps.Copy(all, others)
	return all
}

// ofR are attributes of a record that is well-formed but for what a test adds.
var ofR = raw{contract.RequestID: "r"}

const second = 1_000_000_000

// chunkOfR is the chunk that ofR decodes to: with all defaults.
func chunkOfR() Chunk {
	return Chunk{RequestID: "r", Frames: []string{""}, StartedAt: 100 * second, Time: 100 * second}
}

var at100 = Times{Last: 100 * second}

// bare returns the chunk without the attributes that it refers to, so that it can be compared.
func bare(c Chunk) Chunk {
	c.Attributes = pcommon.Map{}
	if len(c.TokenIDs) == 0 {
		c.TokenIDs = nil
	}
	return c
}

func packed(numbers ...byte) []byte {
	var p []byte
	for _, n := range numbers {
		p = append(p, n, 0, 0, 0)
	}
	return p
}

func ints(numbers ...int64) []any {
	array := []any{}
	for _, n := range numbers {
		array = append(array, n)
	}
	return array
}

func TestChunk(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  raw
		want func(*Chunk) // what differs from chunkOfR
	}{
		{"the defaults", nil, func(*Chunk) {}},
		{"a request id in decimal", raw{contract.RequestID: int64(-7)}, func(c *Chunk) { c.RequestID = "-7" }},
		{"a request id of a double", raw{contract.RequestID: 7.0}, func(c *Chunk) { c.RequestID = "7" }},
		{
			"a request id at the limit", raw{contract.RequestID: strings.Repeat("x", 256)},
			func(c *Chunk) { c.RequestID = strings.Repeat("x", 256) },
		},
		{"an output index", raw{contract.OutputIndex: int64(math.MaxInt32)}, func(c *Chunk) { c.OutputIndex = math.MaxInt32 }},

		{"text", raw{contract.TextDiff: "a"}, func(c *Chunk) { c.Frames = []string{"a"} }},
		{"text as bytes", raw{contract.TextDiff: []byte("\xff")}, func(c *Chunk) { c.Frames = []string{"\xff"} }},
		{"text as no bytes", raw{contract.TextDiff: []byte{}}, func(*Chunk) {}},
		{"an array", raw{contract.TextDiff: []any{"a", "", "b"}}, func(c *Chunk) { c.Frames = []string{"a", "", "b"} }},
		{
			"an array of strings and bytes", raw{contract.TextDiff: []any{"a", []byte("\xed\xa0\xbd")}},
			func(c *Chunk) { c.Frames = []string{"a", "\xed\xa0\xbd"} },
		},
		{"an empty array is one chunk without text", raw{contract.TextDiff: []any{}}, func(*Chunk) {}},

		{
			"packed", raw{contract.TextDiff: "abc", contract.FrameLengths: packed(1, 0, 2)},
			func(c *Chunk) { c.Frames = []string{"a", "", "bc"} },
		},
		{
			"packed with lengths in an array", raw{contract.TextDiff: "abc", contract.FrameLengths: ints(2, 1)},
			func(c *Chunk) { c.Frames = []string{"ab", "c"} },
		},
		{
			"packed bytes", raw{contract.TextDiff: []byte("a\xff"), contract.FrameLengths: packed(1, 1)},
			func(c *Chunk) { c.Frames = []string{"a", "\xff"} },
		},
		{
			"lengths are in bytes", raw{contract.TextDiff: "éa", contract.FrameLengths: packed(1, 2)},
			func(c *Chunk) { c.Frames = []string{"\xc3", "\xa9a"} },
		},
		{
			"packed chunks without text need no text_diff", raw{contract.FrameLengths: packed(0, 0)},
			func(c *Chunk) { c.Frames = []string{"", ""} },
		},
		{"empty frame lengths are one chunk without text", raw{contract.FrameLengths: []byte{}}, func(*Chunk) {}},
		{"the same in an array", raw{contract.FrameLengths: []any{}, contract.TextDiff: ""}, func(*Chunk) {}},

		{"token ids", raw{contract.TokenIDsDiff: ints(5, 0)}, func(c *Chunk) { c.TokenIDs = []uint32{5, 0} }},
		{"token ids, packed", raw{contract.TokenIDsDiff: packed(5, 0)}, func(c *Chunk) { c.TokenIDs = []uint32{5, 0} }},
		{
			"the largest token id", raw{contract.TokenIDsDiff: ints(math.MaxUint32)},
			func(c *Chunk) { c.TokenIDs = []uint32{math.MaxUint32} },
		},
		{"no token ids", raw{contract.TokenIDsDiff: []any{}}, func(*Chunk) {}},

		{"the full text", raw{contract.Text: "abc"}, func(c *Chunk) { c.Text, c.HasText = "abc", true }},
		{"an empty full text, as bytes", raw{contract.Text: []byte{}}, func(c *Chunk) { c.HasText = true }},
		{"the empty string is no full text", raw{contract.Text: ""}, func(*Chunk) {}},
		{"the full text as bytes", raw{contract.Text: []byte("\xff")}, func(c *Chunk) { c.Text, c.HasText = "\xff", true }},

		{"final", raw{contract.IsFinal: true}, func(c *Chunk) { c.IsFinal = true }},
		{"not final", raw{contract.IsFinal: false}, func(*Chunk) {}},
		{
			"flags", raw{contract.Aborted: true, contract.Streaming: false},
			func(c *Chunk) { c.Aborted, c.Streaming = True, False },
		},
		{
			"flags the other way", raw{contract.Aborted: false, contract.Streaming: true},
			func(c *Chunk) { c.Aborted, c.Streaming = False, True },
		},

		{
			"a disaggregated request id", raw{contract.DisaggRequestID: "d"},
			func(c *Chunk) { c.DisaggRequestID, c.HasDisaggRequestID = "d", true },
		},
		{
			"a disaggregated request id in decimal", raw{contract.DisaggRequestID: int64(math.MaxInt64)},
			func(c *Chunk) { c.DisaggRequestID, c.HasDisaggRequestID = "9223372036854775807", true },
		},
		{"null as one", raw{contract.DisaggRequestID: nil}, func(c *Chunk) { c.HasDisaggRequestID = true }},
		{"an empty one is null", raw{contract.DisaggRequestID: ""}, func(c *Chunk) { c.HasDisaggRequestID = true }},

		{
			"a chunk index", raw{contract.ChunkIndex: int64(0)}, func(c *Chunk) { c.Numbered = true },
		},
		{
			"the largest chunk index", raw{contract.ChunkIndex: int64(math.MaxInt32)},
			func(c *Chunk) { c.Numbered, c.Index = true, math.MaxInt32 },
		},
		{
			"dropped chunks", raw{contract.EmitterDropped: int64(7)}, func(c *Chunk) { c.EmitterDropped = 7 },
		},
		{
			"other attributes", raw{"model": "m", "tenant": "", "finish_reason": nil, contract.AttributeEventName: "e"},
			func(c *Chunk) { c.Others = 3 },
		},
		{
			"an attribute of the namespace that nobody knows is ignored, whatever it holds",
			raw{contract.Namespace + "new": map[string]any{"k": "v"}, contract.Frames: "f"}, func(*Chunk) {},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := chunkOfR()
			test.want(&want)
			var d Decoder
			got, err := d.Chunk(ofR.and(test.raw).readOnly(t), at100)
			require.NoError(t, err)
			assert.Equal(t, want, bare(got))
		})
	}
}

// TestAbsentAttributes: without a value, or with an empty string, an attribute is as if it was not there. (For the
// disaggregated request id that is null, see TestChunk.)
func TestAbsentAttributes(t *testing.T) {
	for _, key := range []string{
		contract.OutputIndex, contract.TextDiff, contract.FrameLengths, contract.TokenIDsDiff, contract.Text,
		contract.IsFinal, contract.Aborted, contract.Streaming, contract.ChunkIndex, contract.FrameAges, contract.EmitterDropped,
	} {
		for _, absent := range []any{nil, ""} {
			t.Run(fmt.Sprintf("%s/%#v", key, absent), func(t *testing.T) {
				var d Decoder
				got, err := d.Chunk(ofR.and(raw{key: absent}).readOnly(t), at100)
				require.NoError(t, err)
				assert.Equal(t, chunkOfR(), bare(got))
			})
		}
	}
}

func TestMalformedChunk(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  raw
		key  string
		err  error
	}{
		{"no value as request id", raw{contract.RequestID: nil}, contract.RequestID, attr.ErrMissing},
		{"an empty request id", raw{contract.RequestID: ""}, contract.RequestID, attr.ErrMissing},
		{"a long request id", raw{contract.RequestID: strings.Repeat("x", 257)}, contract.RequestID, attr.ErrTooLong},
		{"a fraction as request id", raw{contract.RequestID: 0.5}, contract.RequestID, attr.ErrRange},
		{"a large double as request id", raw{contract.RequestID: float64(1 << 53)}, contract.RequestID, attr.ErrRange},
		{"a boolean as request id", raw{contract.RequestID: true}, contract.RequestID, attr.ErrType},
		{"bytes as request id", raw{contract.RequestID: []byte("r")}, contract.RequestID, attr.ErrType},
		{"a long disaggregated id", raw{contract.DisaggRequestID: strings.Repeat("x", 257)}, contract.DisaggRequestID, attr.ErrTooLong},
		{"a fraction as disaggregated id", raw{contract.DisaggRequestID: 0.5}, contract.DisaggRequestID, attr.ErrRange},
		{"an array as disaggregated id", raw{contract.DisaggRequestID: ints(1)}, contract.DisaggRequestID, attr.ErrType},

		{"an output index below 0", raw{contract.OutputIndex: int64(-1)}, contract.OutputIndex, attr.ErrRange},
		{"an output index of 2^31", raw{contract.OutputIndex: int64(1 << 31)}, contract.OutputIndex, attr.ErrRange},
		{"an output index as string", raw{contract.OutputIndex: "0"}, contract.OutputIndex, attr.ErrType},
		{"an output index as double", raw{contract.OutputIndex: 1.0}, contract.OutputIndex, attr.ErrType},
		{"a chunk index below 0", raw{contract.ChunkIndex: int64(-1)}, contract.ChunkIndex, attr.ErrRange},
		{"a chunk index of 2^31", raw{contract.ChunkIndex: int64(1 << 31)}, contract.ChunkIndex, attr.ErrRange},
		{"a chunk index as string", raw{contract.ChunkIndex: "0"}, contract.ChunkIndex, attr.ErrType},
		{"dropped chunks below 0", raw{contract.EmitterDropped: int64(-1)}, contract.EmitterDropped, attr.ErrRange},
		{"dropped chunks of 2^31", raw{contract.EmitterDropped: int64(1 << 31)}, contract.EmitterDropped, attr.ErrRange},
		{"dropped chunks as double", raw{contract.EmitterDropped: 1.0}, contract.EmitterDropped, attr.ErrType},

		{"an int as text", raw{contract.TextDiff: int64(1)}, contract.TextDiff, attr.ErrType},
		{"a map as text", raw{contract.TextDiff: map[string]any{}}, contract.TextDiff, attr.ErrType},
		{"an int in an array of text", raw{contract.TextDiff: []any{"a", int64(1)}}, contract.TextDiff, attr.ErrType},
		{"an int as text with lengths", raw{contract.TextDiff: int64(1), contract.FrameLengths: packed(1)}, contract.TextDiff, attr.ErrType},
		{"no value in an array of text", raw{contract.TextDiff: []any{"a", nil}}, contract.TextDiff, attr.ErrType},
		{"an array as full text", raw{contract.Text: []any{"a"}}, contract.Text, attr.ErrType},
		{"a boolean as full text", raw{contract.Text: true}, contract.Text, attr.ErrType},

		{
			"lengths beside an array", raw{contract.TextDiff: []any{"a"}, contract.FrameLengths: packed(1)},
			contract.FrameLengths, attr.ErrMismatch,
		},
		{
			"lengths beside an empty array", raw{contract.TextDiff: []any{}, contract.FrameLengths: []byte{}},
			contract.FrameLengths, attr.ErrMismatch,
		},
		{"lengths of too little", raw{contract.TextDiff: "abc", contract.FrameLengths: packed(1, 1)}, contract.FrameLengths, attr.ErrMismatch},
		{"lengths of too much", raw{contract.TextDiff: "abc", contract.FrameLengths: packed(1, 3)}, contract.FrameLengths, attr.ErrMismatch},
		{"lengths of nothing", raw{contract.FrameLengths: packed(1)}, contract.FrameLengths, attr.ErrMismatch},
		{"no lengths for a text", raw{contract.TextDiff: "a", contract.FrameLengths: []byte{}}, contract.FrameLengths, attr.ErrMismatch},
		{
			"lengths that add up only in 32 bits",
			raw{contract.TextDiff: "ab", contract.FrameLengths: ints(math.MaxInt32, math.MaxInt32, 4)}, contract.FrameLengths, attr.ErrMismatch,
		},
		{"a length of 2^31", raw{contract.TextDiff: "a", contract.FrameLengths: ints(1 << 31)}, contract.FrameLengths, attr.ErrRange},
		{"a length below 0", raw{contract.TextDiff: "a", contract.FrameLengths: ints(2, -1)}, contract.FrameLengths, attr.ErrRange},
		{"5 bytes of lengths", raw{contract.TextDiff: "a", contract.FrameLengths: []byte{1, 0, 0, 0, 0}}, contract.FrameLengths, attr.ErrPacking},
		{"a string of lengths", raw{contract.TextDiff: "a", contract.FrameLengths: "1"}, contract.FrameLengths, attr.ErrType},

		{"a token id below 0", raw{contract.TokenIDsDiff: ints(-1)}, contract.TokenIDsDiff, attr.ErrRange},
		{"a token id of 2^32", raw{contract.TokenIDsDiff: ints(1 << 32)}, contract.TokenIDsDiff, attr.ErrRange},
		{"3 bytes of token ids", raw{contract.TokenIDsDiff: []byte{1, 0, 0}}, contract.TokenIDsDiff, attr.ErrPacking},
		{"a token id as double", raw{contract.TokenIDsDiff: []any{1.0}}, contract.TokenIDsDiff, attr.ErrType},
		{"one token id", raw{contract.TokenIDsDiff: int64(1)}, contract.TokenIDsDiff, attr.ErrType},

		{"final as string", raw{contract.IsFinal: "true"}, contract.IsFinal, attr.ErrType},
		{"final as int", raw{contract.IsFinal: int64(1)}, contract.IsFinal, attr.ErrType},
		{"aborted as int", raw{contract.Aborted: int64(1)}, contract.Aborted, attr.ErrType},
		{"streaming as string", raw{contract.Streaming: "false"}, contract.Streaming, attr.ErrType},

		{"too few ages", raw{contract.TextDiff: []any{"a", "b"}, contract.FrameAges: ints(1)}, contract.FrameAges, attr.ErrMismatch},
		{"too many ages", raw{contract.TextDiff: "a", contract.FrameAges: ints(1, 0)}, contract.FrameAges, attr.ErrMismatch},
		{"ages of no chunk", raw{contract.FrameAges: []any{}}, contract.FrameAges, attr.ErrMismatch},
		{"an age below 0", raw{contract.FrameAges: ints(-1)}, contract.FrameAges, attr.ErrRange},
		{"6 bytes of ages", raw{contract.FrameAges: []byte{1, 0, 0, 0, 0, 0}}, contract.FrameAges, attr.ErrPacking},
		{"one age", raw{contract.FrameAges: int64(1)}, contract.FrameAges, attr.ErrType},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Decoder
			got, err := d.Chunk(ofR.and(test.raw).readOnly(t), at100)
			assertMalformed(t, err, test.key, test.err)
			assert.Equal(t, Chunk{}, got)
		})
	}
	t.Run("no request id", func(t *testing.T) {
		var d Decoder
		_, err := d.Chunk(raw{contract.TextDiff: "a"}.readOnly(t), at100)
		assertMalformed(t, err, contract.RequestID, attr.ErrMissing)
	})
}

func assertMalformed(t *testing.T, err error, key string, want error) {
	t.Helper()
	require.ErrorIs(t, err, want)
	assert.True(t, strings.HasPrefix(err.Error(), key+" "), "%q names the attribute %q first", err, key)
}

// TestErrorsSayNothingOfTheValues: attributes hold model output, and errors end up in logs.
func TestErrorsSayNothingOfTheValues(t *testing.T) {
	const text, number = "XsecretX", 1357924680
	long := strings.Repeat(text, 40)
	wrong := map[string][]any{
		contract.RequestID:       {long, []byte(text), number + 0.5, []any{text}},
		contract.DisaggRequestID: {long, []byte(text), number + 0.5, []any{text}},
		contract.OutputIndex:     {text, int64(-number), float64(number)},
		contract.ChunkIndex:      {text, int64(-number), float64(number)},
		contract.EmitterDropped:  {text, int64(-number), float64(number)},
		contract.TextDiff:        {int64(number), []any{text, int64(number)}, map[string]any{text: text}},
		contract.FrameLengths:    {text, ints(number), []byte(text + "X"), int64(number)},
		contract.FrameAges:       {text, ints(number, number), []byte(text + "X"), ints(-number)},
		contract.TokenIDsDiff:    {text, ints(-number), []byte(text + "X"), []any{text}},
		contract.Text:            {int64(number), []any{text}},
		contract.IsFinal:         {text, int64(number)},
		contract.Aborted:         {text, int64(number)},
		contract.Streaming:       {text, int64(number)},
	}
	for key, values := range wrong {
		for _, value := range values {
			t.Run(fmt.Sprintf("%s/%T", key, value), func(t *testing.T) {
				var d Decoder
				_, err := d.Chunk(ofR.and(raw{key: value}).readOnly(t), at100)
				require.Error(t, err)
				for ; err != nil; err = errors.Unwrap(err) {
					assert.NotContains(t, err.Error(), text)
					assert.NotContains(t, err.Error(), fmt.Sprint(number))
				}
			})
		}
	}
}

func TestStartedAt(t *testing.T) {
	two := raw{contract.TextDiff: []any{"a", "b"}}
	for _, test := range []struct {
		name  string
		raw   raw
		times Times
		want  uint64
	}{
		{"without ages, the record's time", two, Times{Last: 5 * second}, 5 * second},
		{"the first age tells", two.and(raw{contract.FrameAges: ints(2_000_000, 500)}), Times{Last: 5 * second}, 3 * second},
		{"ages are microseconds", two.and(raw{contract.FrameAges: ints(1, 0)}), Times{Last: 5 * second}, 5*second - 1000},
		{"ages may be packed", two.and(raw{contract.FrameAges: packed(7, 0)}), Times{Last: 5 * second}, 5*second - 7000},
		{
			"the largest age, of more than an hour", two.and(raw{contract.FrameAges: ints(math.MaxUint32, 0)}),
			Times{Last: 10_000 * second}, 10_000*second - math.MaxUint32*1000,
		},
		{
			"a larger one, in an array", two.and(raw{contract.FrameAges: ints(5_000_000_000, 0)}),
			Times{Last: 10_000 * second}, 5000 * second,
		},
		{
			"one that is larger than any time", two.and(raw{contract.FrameAges: ints(math.MaxInt64, 0)}),
			Times{Last: math.MaxUint64}, 0,
		},
		{"of one chunk too", raw{contract.TextDiff: "a", contract.FrameAges: ints(9)}, Times{Last: second}, second - 9000},
		{"of one chunk without text", raw{contract.FrameAges: ints(9)}, Times{Last: second}, second - 9000},
		{
			"of one chunk without text in an array", raw{contract.TextDiff: []any{}, contract.FrameAges: ints(9)},
			Times{Last: second}, second - 9000,
		},
		{
			"of packed chunks", raw{contract.TextDiff: "ab", contract.FrameLengths: packed(1, 1), contract.FrameAges: packed(9, 0)},
			Times{Last: second}, second - 9000,
		},
		{"not before 1970", two.and(raw{contract.FrameAges: ints(2, 0)}), Times{Last: 1999}, 0},
		{"just after 1970", two.and(raw{contract.FrameAges: ints(2, 0)}), Times{Last: 2999}, 999},
		{"just 1970", two.and(raw{contract.FrameAges: ints(2, 0)}), Times{Last: 2000}, 0},
		{"at the end of time", two.and(raw{contract.FrameAges: ints(1, 0)}), Times{Last: math.MaxUint64}, math.MaxUint64 - 1000},

		{"a span's start", two, Times{First: 4 * second, Last: 5 * second}, 4 * second},
		{"a span's start goes before ages", two.and(raw{contract.FrameAges: ints(9, 0)}), Times{First: 4 * second, Last: 5 * second}, 4 * second},
		{"a span without duration", two, Times{First: 5 * second, Last: 5 * second}, 5 * second},
		{"a span that starts after its end", two, Times{First: 6 * second, Last: 5 * second}, 5 * second},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Decoder
			c, err := d.Chunk(ofR.and(test.raw).readOnly(t), test.times)
			require.NoError(t, err)
			assert.Equal(t, test.want, c.StartedAt)
			assert.Equal(t, test.times.Last, c.Time)
		})
	}
}

// The chunks decoded since the last Reset share the scratch memory: none may reach into another's, whatever was appended.
func TestChunksUntilReset(t *testing.T) {
	const number = 100
	var d Decoder
	var chunks []Chunk
	for i := range int64(number) {
		c, err := d.Chunk(ofR.and(raw{
			contract.TextDiff: []any{fmt.Sprint("a", i), fmt.Sprint("b", i)}, contract.TokenIDsDiff: ints(i, i+1), contract.FrameAges: ints(1, 0),
		}).readOnly(t), at100)
		require.NoError(t, err)
		chunks = append(chunks, c)
		_ = append(c.Frames, "intruder")
		_ = append(c.TokenIDs, math.MaxUint32)
		_, err = d.Chunk(ofR.and(raw{contract.TextDiff: []any{"of a malformed one", nil}}).readOnly(t), at100)
		require.Error(t, err)
	}
	for i, c := range chunks {
		assert.Equal(t, []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}, c.Frames)
		assert.Equal(t, []uint32{uint32(i), uint32(i + 1)}, c.TokenIDs)
	}
}

func TestResetGivesUpReferences(t *testing.T) {
	var d Decoder
	_, err := d.Chunk(ofR.and(raw{contract.TextDiff: []any{"a", "b"}}).readOnly(t), at100)
	require.NoError(t, err)
	d.Reset()
	assert.Equal(t, []string{"", ""}, d.frames[:2], "no text is kept alive")
}

func TestChunkAttributesAreTheRecords(t *testing.T) {
	attributes := ofR.and(raw{"model": "m"}).readOnly(t)
	var d Decoder
	c, err := d.Chunk(attributes, at100)
	require.NoError(t, err)
	assert.Equal(t, attributes, c.Attributes)
}

func TestEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  raw
		want End
	}{
		{"without a reason", nil, End{RequestID: "r"}},
		{"with a reason", raw{contract.EndReason: "error"}, End{RequestID: "r", Reason: "error"}},
		{"with no value as reason", raw{contract.EndReason: nil}, End{RequestID: "r"}},
		{"an id in decimal", raw{contract.RequestID: int64(12)}, End{RequestID: "12"}},
		{"chunk counts", raw{contract.ChunkCounts: ints(0, math.MaxInt32)}, End{RequestID: "r", ChunkCounts: []uint32{0, math.MaxInt32}}},
		{"no chunk counts", raw{contract.ChunkCounts: []any{}}, End{RequestID: "r"}},
		{"chunk counts without a value", raw{contract.ChunkCounts: nil}, End{RequestID: "r"}},
		{"attributes of others", raw{"model": int64(1), contract.TextDiff: int64(1)}, End{RequestID: "r"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Decoder
			test.want.Time = math.MaxUint64
			got, err := d.End(ofR.and(test.raw).readOnly(t), math.MaxUint64)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestMalformedEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  raw
		key  string
		err  error
	}{
		{"an empty request id", raw{contract.RequestID: ""}, contract.RequestID, attr.ErrMissing},
		{"a long request id", raw{contract.RequestID: strings.Repeat("x", 257)}, contract.RequestID, attr.ErrTooLong},
		{"a map as request id", raw{contract.RequestID: map[string]any{}}, contract.RequestID, attr.ErrType},
		{"an int as reason", raw{contract.EndReason: int64(1)}, contract.EndReason, attr.ErrType},
		{"bytes as reason", raw{contract.EndReason: []byte("error")}, contract.EndReason, attr.ErrType},
		{"one chunk count", raw{contract.ChunkCounts: int64(1)}, contract.ChunkCounts, attr.ErrType},
		{"packed chunk counts", raw{contract.ChunkCounts: packed(1)}, contract.ChunkCounts, attr.ErrType},
		{"a chunk count below 0", raw{contract.ChunkCounts: ints(1, -1)}, contract.ChunkCounts, attr.ErrRange},
		{"a chunk count of 2^31", raw{contract.ChunkCounts: ints(1 << 31)}, contract.ChunkCounts, attr.ErrRange},
		{"a double as chunk count", raw{contract.ChunkCounts: []any{1.0}}, contract.ChunkCounts, attr.ErrType},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Decoder
			got, err := d.End(ofR.and(test.raw).readOnly(t), second)
			assertMalformed(t, err, test.key, test.err)
			assert.Equal(t, End{}, got)
		})
	}
}

func TestFlag(t *testing.T) {
	for _, known := range []bool{false, true} {
		assert.True(t, True.Or(known))
		assert.False(t, False.Or(known))
		assert.Equal(t, known, Unknown.Or(known))
	}
}

func TestIsOther(t *testing.T) {
	for _, key := range []string{"model", "raw_output", "raw_outputs.x", "", "event.names"} {
		assert.True(t, IsOther(key), key)
	}
	for _, key := range []string{"event.name", contract.RequestID, contract.Frames, "raw_output.", "raw_output.new"} {
		assert.False(t, IsOther(key), key)
	}
}
