package record

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// FuzzAppendString holds the encoder against encoding/json: what it makes of any bytes is JSON in valid UTF-8 that means
// what the bytes did.
func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "\x00\b\f\n\r\t\x1f\x7f", `"\/`, "é猫😀\uFFFD\u2028\u2029", `\ud83d\n`,
		high, low, high + low, low + high, "a" + high + "b", high[:2], "\xff", "\xe7\x8c", "\xc0\xaf", "\xf4\x90\x80\x80",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString(nil, s)
		require.True(t, json.Valid(got), "%q", got)
		require.True(t, utf8.Valid(got), "%q", got)
		var decoded string
		require.NoError(t, json.Unmarshal(got, &decoded))
		assert.Equal(t, asGo(s), decoded)
		if utf8.ValidString(s) {
			assert.Equal(t, s, decoded, "nothing of valid text is lost")
			assert.Equal(t, likePython(t, s), string(got), "the same bytes")
		}
	})
}

// FuzzRead reads records from whatever OTLP can carry: what is well-formed makes a line, and comes out of Put and Read as
// the same line.
func FuzzRead(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint64(t0), uint64(t0+second))
	}
	f.Fuzz(func(t *testing.T, otlp []byte, startedAt, finishedAt uint64) {
		logs, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(otlp)
		if err != nil {
			return
		}
		logs.MarkReadOnly()
		var d Reader
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					checkRead(t, &d, record.Attributes(), startedAt, finishedAt)
				}
			}
		}
	})
}

func checkRead(t *testing.T, d *Reader, attributes pcommon.Map, startedAt, finishedAt uint64) {
	r, err := d.Read(attributes, startedAt, finishedAt)
	if err != nil {
		assert.NotEmpty(t, err.Error())
		return
	}
	require.NotEmpty(t, r.RequestID)
	line := new(Encoder).AppendLine(nil, r)
	decoded := decode(t, line)
	assert.Equal(t, asGo(r.Text), decoded.Text)
	assert.Equal(t, len(decoded.TokenIDs), decoded.NumOutputTokens)
	assert.NotContains(t, decoded.Frames, "")
	require.Len(t, decoded.Frames, len(r.Frames))
	for i, frame := range r.Frames {
		assert.Equal(t, asGo(frame), decoded.Frames[i])
	}

	for _, form := range []Form{Arrays, Packed} {
		again := pcommon.NewMap()
		r.Put(again, form)
		r, err = d.Read(again, 0, finishedAt)
		require.NoError(t, err)
		assert.Equal(t, string(line), string(new(Encoder).AppendLine(nil, r)))
	}
}

func seeds(f *testing.F) (otlp [][]byte) {
	for _, attributes := range []raw{
		least,
		least.and(raw{contract.Frames: "ab", contract.FrameLengths: []byte{1, 0, 0, 0, 1, 0, 0, 0}}),
		least.and(raw{
			contract.StartedAt: "2026-11-04T05:06:07.123456+00:00", contract.Frames: []any{"a", []byte("b\xff")},
			contract.TokenIDs: []byte{1, 2, 3, 4}, contract.OutputIndex: int64(2), contract.DisaggRequestID: 7.0,
		}),
		least.and(raw{
			contract.StartedAt: int64(-1), contract.Text: []byte(high), contract.TokenIDs: []any{int64(1)}, contract.EndReason: "",
			contract.Streaming: true, contract.Aborted: true, contract.Partial: true, contract.FramesConsistent: true,
		}),
	} {
		logs := plog.NewLogs()
		record := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		require.NoError(f, record.Attributes().FromRaw(attributes))
		one, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs)
		require.NoError(f, err)
		otlp = append(otlp, one)
	}
	return otlp
}
