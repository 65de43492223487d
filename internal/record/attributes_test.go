package record

import (
	"fmt"
	"maps"
	"math"
	"slices"
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

// and returns the attributes with others on top.
func (r raw) and(others raw) raw {
	all := maps.Clone(r)
	maps.Copy(all, others)
	return all
}

// readOnly makes attributes that a reader must not change: it panics if it tries.
func (r raw) readOnly(t testing.TB) pcommon.Map {
	t.Helper()
	logs := plog.NewLogs()
	attributes := logs.ResourceLogs().AppendEmpty().Resource().Attributes()
	require.NoError(t, attributes.FromRaw(r))
	logs.MarkReadOnly()
	return attributes
}

// least are the attributes that a record cannot do without.
var least = raw{contract.RequestID: "r", contract.Text: "ab"}

// recordOfLeast is the record that least reads as: with all defaults.
func recordOfLeast() Record {
	return Record{RequestID: "r", Text: "ab", StartedAt: t0, FinishedAt: t0 + second}
}

// normalised returns a copy of the record in which none and empty are the same.
func normalised(r *Record) Record {
	c := *r
	if len(c.Frames) == 0 {
		c.Frames = nil
	}
	if len(c.TokenIDs) == 0 {
		c.TokenIDs = nil
	}
	return c
}

func TestPut(t *testing.T) {
	attributesOf := func(r Record) map[string]any {
		m := pcommon.NewMap()
		r.Put(m, Arrays)
		return m.AsRaw()
	}
	t.Run("everything", func(t *testing.T) {
		assert.Equal(t, map[string]any{
			contract.RequestID: "r", contract.DisaggRequestID: "d", contract.OutputIndex: int64(1),
			contract.StartedAt: "2026-11-04T05:06:07.123456+00:00", contract.Streaming: true, contract.Aborted: true,
			contract.Partial: true, contract.EndReason: "error", contract.Text: "ab", contract.Frames: []any{"a", "b"},
			contract.FramesConsistent: true, contract.TokenIDs: []any{int64(0), int64(7), int64(math.MaxUint32)},
			contract.NumOutputTokens: int64(3),
		}, attributesOf(full()))
	})
	t.Run("packed", func(t *testing.T) {
		m := pcommon.NewMap()
		r := full()
		r.Text = "other"
		r.Put(m, Packed)
		assert.Equal(t, "ab", m.AsRaw()[contract.Frames])
		assert.Equal(t, []byte{1, 0, 0, 0, 1, 0, 0, 0}, m.AsRaw()[contract.FrameLengths])
		assert.Equal(t, []byte{0, 0, 0, 0, 7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, m.AsRaw()[contract.TokenIDs])
	})
	t.Run("what is null on the line is absent", func(t *testing.T) {
		assert.Equal(t, map[string]any{
			contract.RequestID: "", contract.OutputIndex: int64(0), contract.StartedAt: "1970-01-01T00:00:00+00:00",
			contract.Streaming: false, contract.Aborted: false, contract.Partial: false, contract.Text: "",
			contract.Frames: []any{}, contract.FramesConsistent: false, contract.TokenIDs: []any{},
			contract.NumOutputTokens: int64(0),
		}, attributesOf(Record{}))
	})
	t.Run("an empty end reason is not absent", func(t *testing.T) {
		assert.Equal(t, "", attributesOf(Record{HasEndReason: true})[contract.EndReason])
	})
	t.Run("text that is not UTF-8 goes as bytes", func(t *testing.T) {
		got := attributesOf(Record{Text: "a\xff", Frames: []string{"a", "\xff"}, EndReason: high, HasEndReason: true})
		assert.Equal(t, []byte("a\xff"), got[contract.Text])
		assert.Equal(t, []any{"a", []byte("\xff")}, got[contract.Frames])
		assert.Equal(t, []byte(high), got[contract.EndReason])
	})
	t.Run("other attributes stay, the contract's are replaced", func(t *testing.T) {
		m := pcommon.NewMap()
		m.PutStr("model", "m")
		m.PutBool(contract.Text, true)
		r := full()
		r.Put(m, Arrays)
		assert.Equal(t, "m", m.AsRaw()["model"])
		assert.Equal(t, "ab", m.AsRaw()[contract.Text])
	})
}

// TestKeysOfLineAndAttributes: each key of the line but event and finished_at is an attribute.
func TestKeysOfLineAndAttributes(t *testing.T) {
	r := full()
	r.Chunks, r.MissingChunks, r.DuplicateChunks, r.FrameTimes = CountOf(1), CountOf(2), CountOf(3), []uint32{}
	packed := pcommon.NewMap()
	r.Put(packed, Packed)
	assert.Equal(t, numAttributes, packed.Len())
	m := pcommon.NewMap()
	r.Put(m, Arrays)
	assert.Equal(t, numAttributes, m.Len()+1, "without the lengths of the frames")
	line := string(new(Encoder).AppendLineWith(nil, &r, everything, &Surroundings{Resource: pcommon.NewMap(), Attributes: pcommon.NewMap()}))
	for key := range m.All() {
		assert.Contains(t, line, `"`+strings.TrimPrefix(key, contract.Namespace)+`":`)
	}
}

// TestRoundTrip puts a record, sends it as OTLP, and reads it again.
func TestRoundTrip(t *testing.T) {
	everything := full()
	everything.StartedAt = t0 + 123_456_000 // the attribute has microseconds
	for name, r := range map[string]Record{
		"everything":          everything,
		"least":               {RequestID: "r", FramesConsistent: true},
		"an empty end reason": {RequestID: "r", Partial: true, HasEndReason: true},
		"not UTF-8": {
			RequestID: "r", Text: "a\xff" + high, Frames: []string{"a\xff", high}, FramesConsistent: true, EndReason: low, HasEndReason: true,
		},
		"a large request id":       {RequestID: strings.Repeat("x", 256), DisaggRequestID: strings.Repeat("y", 256)},
		"the largest output index": {RequestID: "r", OutputIndex: math.MaxInt32},
		"the end of time":          {RequestID: "r", StartedAt: math.MaxUint64 / 1000 * 1000, FinishedAt: math.MaxUint64},
		"frames that do not add up": {
			RequestID: "r", Text: "abc", Frames: []string{"a"}, TokenIDs: []uint32{1},
		},
		"inconsistent although they add up": {RequestID: "r", Text: "a", Frames: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, form := range []Form{Arrays, Packed} {
				var d Reader
				got, err := d.Read(sent(t, &r, form), 12345, r.FinishedAt)
				require.NoError(t, err)
				assert.Equal(t, normalised(&r), normalised(got))
				assert.Equal(t, string(new(Encoder).AppendLine(nil, &r)), string(new(Encoder).AppendLine(nil, got)))
			}
		})
	}
}

// sent returns the record's attributes as a receiver has them.
func sent(t testing.TB, r *Record, form Form) pcommon.Map {
	t.Helper()
	logs := plog.NewLogs()
	r.Put(logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Attributes(), form)
	otlp, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs)
	require.NoError(t, err)
	received, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(otlp)
	require.NoError(t, err)
	received.MarkReadOnly()
	return received.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes()
}

func TestRead(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  raw
		want func(*Record) // what differs from recordOfLeast
	}{
		{"the defaults", nil, func(*Record) {}},
		{"a request id in decimal", raw{contract.RequestID: int64(7)}, func(r *Record) { r.RequestID = "7" }},
		{"a request id of a double", raw{contract.RequestID: 7.0}, func(r *Record) { r.RequestID = "7" }},
		{"a disaggregated id", raw{contract.DisaggRequestID: int64(7)}, func(r *Record) { r.DisaggRequestID = "7" }},
		{"an empty one is null", raw{contract.DisaggRequestID: ""}, func(*Record) {}},
		{"an output index", raw{contract.OutputIndex: int64(2)}, func(r *Record) { r.OutputIndex = 2 }},

		{"started at the epoch", raw{contract.StartedAt: "1970-01-01T00:00:00+00:00"}, func(r *Record) { r.StartedAt = 0 }},
		{
			"started at a fraction", raw{contract.StartedAt: "2026-11-04T05:06:07.123456+00:00"},
			func(r *Record) { r.StartedAt = t0 + 123_456_000 },
		},
		{
			"started at, with nanoseconds and Z", raw{contract.StartedAt: "2026-11-04T05:06:07.123456789Z"},
			func(r *Record) { r.StartedAt = t0 + 123_456_789 },
		},
		{
			"started at, elsewhere", raw{contract.StartedAt: "2026-11-04T06:36:07+01:30"},
			func(r *Record) { r.StartedAt = t0 },
		},
		{
			"started at the end of time", raw{contract.StartedAt: "2554-07-21T23:34:33.709551615Z"},
			func(r *Record) { r.StartedAt = math.MaxUint64 },
		},
		{"started at nanoseconds", raw{contract.StartedAt: int64(t0 + 1)}, func(r *Record) { r.StartedAt = t0 + 1 }},
		{"started at nanoseconds of 0", raw{contract.StartedAt: int64(0)}, func(r *Record) { r.StartedAt = 0 }},
		// Times are unsigned, OTLP's integers are not.
		{"started at 2^64-1 nanoseconds", raw{contract.StartedAt: int64(-1)}, func(r *Record) { r.StartedAt = math.MaxUint64 }},

		{
			"flags", raw{contract.Streaming: true, contract.Aborted: true, contract.Partial: true},
			func(r *Record) { r.Streaming, r.Aborted, r.Partial = true, true, true },
		},
		{
			"an end reason", raw{contract.EndReason: "error"},
			func(r *Record) { r.EndReason, r.HasEndReason = "error", true },
		},
		{"an empty end reason", raw{contract.EndReason: ""}, func(r *Record) { r.HasEndReason = true }},
		{"an end reason without value is null", raw{contract.EndReason: nil}, func(*Record) {}},

		{"an empty text", raw{contract.Text: ""}, func(r *Record) { r.Text, r.FramesConsistent = "", true }},
		{"text as bytes", raw{contract.Text: []byte("ab")}, func(*Record) {}},
		{"text as no bytes", raw{contract.Text: []byte{}}, func(r *Record) { r.Text, r.FramesConsistent = "", true }},
		{
			"frames", raw{contract.Frames: []any{"a", []byte("b")}},
			func(r *Record) { r.Frames, r.FramesConsistent = []string{"a", "b"}, true },
		},
		{
			"empty frames are left out", raw{contract.Frames: []any{"", "a", []byte{}, "b", ""}},
			func(r *Record) { r.Frames, r.FramesConsistent = []string{"a", "b"}, true },
		},
		{
			"frames, packed", raw{contract.Frames: "ab", contract.FrameLengths: []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}},
			func(r *Record) { r.Frames, r.FramesConsistent = []string{"a", "b"}, true },
		},
		{
			"frames, packed as bytes, cut within a character", raw{
				contract.Text: "é", contract.Frames: []byte("é"), contract.FrameLengths: []any{int64(1), int64(1)}, contract.FramesConsistent: true,
			},
			func(r *Record) { r.Text, r.Frames, r.FramesConsistent = "é", []string{"\xc3", "\xa9"}, true },
		},
		{"no frames, packed", raw{contract.Frames: "", contract.FrameLengths: []byte{}}, func(*Record) {}},
		{"frames that do not add up", raw{contract.Frames: []any{"a"}}, func(r *Record) { r.Frames = []string{"a"} }},
		{
			"what the record says of its frames counts", raw{contract.Frames: []any{"a", "b"}, contract.FramesConsistent: false},
			func(r *Record) { r.Frames = []string{"a", "b"} },
		},
		{"token ids", raw{contract.TokenIDs: []any{int64(math.MaxUint32)}}, func(r *Record) { r.TokenIDs = []uint32{math.MaxUint32} }},
		{"token ids, packed", raw{contract.TokenIDs: []byte{1, 2, 0, 0}}, func(r *Record) { r.TokenIDs = []uint32{513} }},
		{
			"the number of tokens is counted, whatever the record says",
			raw{contract.TokenIDs: []any{int64(5)}, contract.NumOutputTokens: "many"},
			func(r *Record) { r.TokenIDs = []uint32{5} },
		},
		{"attributes of others", raw{"model": int64(1), contract.TextDiff: int64(1)}, func(*Record) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := recordOfLeast()
			test.want(&want)
			var d Reader
			got, err := d.Read(least.and(test.raw).readOnly(t), t0, t0+second)
			require.NoError(t, err)
			assert.Equal(t, want, normalised(got))
		})
	}
}

// TestReadAbsent: without a value, an attribute is as if it was not there; with an empty string too, where that is no value.
func TestReadAbsent(t *testing.T) {
	for _, key := range []string{
		contract.DisaggRequestID, contract.OutputIndex, contract.StartedAt, contract.Streaming, contract.Aborted,
		contract.Partial, contract.Frames, contract.FramesConsistent, contract.TokenIDs, contract.NumOutputTokens,
	} {
		for _, absent := range []any{nil, ""} {
			t.Run(fmt.Sprintf("%s/%#v", key, absent), func(t *testing.T) {
				var d Reader
				got, err := d.Read(least.and(raw{key: absent}).readOnly(t), t0, t0+second)
				require.NoError(t, err)
				assert.Equal(t, recordOfLeast(), normalised(got))
			})
		}
	}
}

func TestReadMalformed(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  raw
		key  string
		err  error
	}{
		{"no request id", raw{contract.RequestID: nil}, contract.RequestID, attr.ErrMissing},
		{"an empty request id", raw{contract.RequestID: ""}, contract.RequestID, attr.ErrMissing},
		{"a long request id", raw{contract.RequestID: strings.Repeat("x", 257)}, contract.RequestID, attr.ErrTooLong},
		{"a boolean as request id", raw{contract.RequestID: true}, contract.RequestID, attr.ErrType},
		{"a long disaggregated id", raw{contract.DisaggRequestID: strings.Repeat("x", 257)}, contract.DisaggRequestID, attr.ErrTooLong},
		{"no text", raw{contract.Text: nil}, contract.Text, attr.ErrMissing},
		{"an int as text", raw{contract.Text: int64(1)}, contract.Text, attr.ErrType},
		{"an output index below 0", raw{contract.OutputIndex: int64(-1)}, contract.OutputIndex, attr.ErrRange},
		{"an output index of 2^31", raw{contract.OutputIndex: int64(1 << 31)}, contract.OutputIndex, attr.ErrRange},
		{"a start that is no time", raw{contract.StartedAt: "yesterday"}, contract.StartedAt, attr.ErrRange},
		{"a start without an offset", raw{contract.StartedAt: "2026-11-04T05:06:07"}, contract.StartedAt, attr.ErrRange},
		{"a start on no day", raw{contract.StartedAt: "2026-02-30T05:06:07+00:00"}, contract.StartedAt, attr.ErrRange},
		{"a start before the epoch", raw{contract.StartedAt: "1969-12-31T23:59:59.999999+00:00"}, contract.StartedAt, attr.ErrRange},
		{"a start before the epoch by its offset", raw{contract.StartedAt: "1970-01-01T00:00:00+00:01"}, contract.StartedAt, attr.ErrRange},
		{"a start after the end of time", raw{contract.StartedAt: "2554-07-21T23:34:33.709551616Z"}, contract.StartedAt, attr.ErrRange},
		{"a double as start", raw{contract.StartedAt: 1.0}, contract.StartedAt, attr.ErrType},
		{"streaming as string", raw{contract.Streaming: "true"}, contract.Streaming, attr.ErrType},
		{"aborted as int", raw{contract.Aborted: int64(1)}, contract.Aborted, attr.ErrType},
		{"partial as int", raw{contract.Partial: int64(1)}, contract.Partial, attr.ErrType},
		{"consistent as int", raw{contract.FramesConsistent: int64(1)}, contract.FramesConsistent, attr.ErrType},
		{"an end reason as int", raw{contract.EndReason: int64(1)}, contract.EndReason, attr.ErrType},
		{"one string as frames", raw{contract.Frames: "a"}, contract.Frames, attr.ErrType},
		{"frames that their lengths do not cover", raw{contract.Frames: "ab", contract.FrameLengths: []byte{1, 0, 0, 0}}, contract.FrameLengths, attr.ErrMismatch},
		{"frames shorter than their lengths", raw{contract.Frames: "a", contract.FrameLengths: []byte{2, 0, 0, 0}}, contract.FrameLengths, attr.ErrMismatch},
		{"lengths of no frames", raw{contract.FrameLengths: []byte{2, 0, 0, 0}}, contract.FrameLengths, attr.ErrMismatch},
		{"lengths beside an array", raw{contract.Frames: []any{"a"}, contract.FrameLengths: []byte{1, 0, 0, 0}}, contract.FrameLengths, attr.ErrMismatch},
		{"lengths beside an empty array", raw{contract.Frames: []any{}, contract.FrameLengths: []byte{}}, contract.FrameLengths, attr.ErrMismatch},
		{"3 bytes of lengths", raw{contract.Frames: "a", contract.FrameLengths: []byte{1, 2, 3}}, contract.FrameLengths, attr.ErrPacking},
		{"an int as frames", raw{contract.Frames: int64(1), contract.FrameLengths: []byte{}}, contract.Frames, attr.ErrType},
		{"an int in frames", raw{contract.Frames: []any{"a", int64(1)}}, contract.Frames, attr.ErrType},
		{"no value in frames", raw{contract.Frames: []any{nil}}, contract.Frames, attr.ErrType},
		{"a token id of 2^32", raw{contract.TokenIDs: []any{int64(1 << 32)}}, contract.TokenIDs, attr.ErrRange},
		{"3 bytes of token ids", raw{contract.TokenIDs: []byte{1, 2, 3}}, contract.TokenIDs, attr.ErrPacking},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Reader
			got, err := d.Read(least.and(test.raw).readOnly(t), t0, t0+second)
			assert.Nil(t, got)
			require.ErrorIs(t, err, test.err)
			assert.True(t, strings.HasPrefix(err.Error(), test.key+" "), "%q names the attribute %q first", err, test.key)
		})
	}
	for key := range least {
		t.Run("without "+key, func(t *testing.T) {
			others := least.and(nil)
			delete(others, key)
			var d Reader
			_, err := d.Read(others.readOnly(t), t0, t0+second)
			assert.EqualError(t, err, key+" is missing")
		})
	}
}

// A start is the only attribute of a record that is parsed: its error must not repeat it, as those of package time do.
func TestReadErrorSaysNothingOfTheValue(t *testing.T) {
	var d Reader
	_, err := d.Read(least.and(raw{contract.StartedAt: "secret"}).readOnly(t), t0, t0)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

// A reader is used for one record after the other: none may have something of the one before, well-formed or not.
func TestReaderKeepsNothing(t *testing.T) {
	var d Reader
	r := full()
	_, err := d.Read(sent(t, &r, Packed), 0, t0)
	require.NoError(t, err)
	_, err = d.Read(sent(t, &r, Arrays), 0, t0)
	require.NoError(t, err)
	_, err = d.Read(sent(t, &r, Packed), 0, t0)
	require.NoError(t, err)
	_, err = d.Read(raw{contract.RequestID: "other", contract.Frames: []any{"x"}, contract.FramesConsistent: true}.readOnly(t), 0, t0)
	require.Error(t, err)
	got, err := d.Read(least.readOnly(t), t0, t0+second)
	require.NoError(t, err)
	assert.Equal(t, recordOfLeast(), normalised(got))
}

func TestRelease(t *testing.T) {
	var d Reader
	r := full()
	_, err := d.Read(sent(t, &r, Arrays), 0, t0)
	require.NoError(t, err)
	_, err = d.Read(least.readOnly(t), t0, t0)
	require.NoError(t, err)
	_, err = d.Read(sent(t, &r, Packed), 0, t0)
	require.NoError(t, err)
	d.Release()
	assert.Equal(t, Record{}, normalised(&d.record))
	assert.Empty(t, d.packedFrames)
	for _, frame := range d.record.Frames[:cap(d.record.Frames)] {
		assert.Empty(t, frame, "no text is kept alive, also of records before the last")
	}
}

// What a large record needed is not kept for the small ones after it.
func TestReleaseKeepsLittle(t *testing.T) {
	const n = mostKept + 1
	r := recordOfLeast()
	r.Text, r.Frames, r.TokenIDs = strings.Repeat("x", n), slices.Repeat([]string{"x"}, n), make([]uint32, n)
	r.FrameTimes = make([]uint32, n)
	for _, form := range []Form{Arrays, Packed} {
		d := Reader{Include: everything}
		for range 2 {
			_, err := d.Read(sent(t, &r, form), 0, t0)
			require.NoError(t, err)
		}
		d.Release()
		assert.LessOrEqual(t, max(cap(d.record.Frames), cap(d.record.TokenIDs), cap(d.record.FrameTimes), cap(d.lengths), cap(d.frameTimes)), mostKept)
	}
}

// Frames without text take no memory, however many a packed record says that it has.
func TestReadOfEmptyFrames(t *testing.T) {
	var d Reader
	got, err := d.Read(least.and(raw{contract.FrameLengths: make([]byte, 4*mostKept)}).readOnly(t), t0, t0+second)
	require.NoError(t, err)
	assert.Zero(t, cap(got.Frames))
}

func TestReadAllocatesNothing(t *testing.T) {
	r := full()
	attributes := sent(t, &r, Arrays)
	var d Reader
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := d.Read(attributes, 0, t0); err != nil {
			t.Error(err)
		}
		d.Release()
	}))
}
