package chunk

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/attr"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// FuzzDecoder decodes whatever OTLP can carry, as a chunk and as a request end.
func FuzzDecoder(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint64(0), uint64(second))
	}
	f.Fuzz(func(t *testing.T, otlp []byte, first, last uint64) {
		logs, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(otlp)
		if err != nil {
			return
		}
		logs.MarkReadOnly()
		var d Decoder
		for _, attributes := range recordsOf(logs) {
			checkChunk(t, &d, attributes, Times{First: first, Last: last})
			checkEnd(t, &d, attributes, last)
		}
	})
}

// seeds has a batch for each form of a record, and one with all of them.
func seeds(f *testing.F) (otlp [][]byte) {
	all := plog.NewLogs()
	records := all.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	add := func(r raw) {
		require.NoError(f, records.AppendEmpty().Attributes().FromRaw(ofR.and(r)))
	}
	for _, form := range forms {
		add(form.raw)
	}
	add(raw{contract.TextDiff: []byte("\xed\xa0\xbd"), contract.FrameLengths: ints(1, 0, 2), contract.FrameAges: packed(2, 1, 0)})
	add(raw{contract.IsFinal: true, contract.Aborted: false, contract.Streaming: true, contract.Text: "text", "model": "m"})
	add(raw{contract.OutputIndex: int64(1), contract.ChunkIndex: int64(2), contract.DisaggRequestID: 7.0})
	add(raw{contract.EndReason: "error", contract.ChunkCounts: ints(3, 4)})
	for i := range records.Len() {
		one := plog.NewLogs()
		records.At(i).CopyTo(one.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty())
		otlp = append(otlp, marshal(f, one))
	}
	return append(otlp, marshal(f, all))
}

func marshal(f *testing.F, logs plog.Logs) []byte {
	otlp, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs)
	require.NoError(f, err)
	return otlp
}

func recordsOf(logs plog.Logs) (records []pcommon.Map) {
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				records = append(records, record.Attributes())
			}
		}
	}
	return records
}

func checkChunk(t *testing.T, d *Decoder, attributes pcommon.Map, times Times) {
	c, err := d.Chunk(attributes, times)
	if err != nil {
		assertKnown(t, err)
		return
	}
	assert.NotEmpty(t, c.RequestID)
	assert.LessOrEqual(t, len(c.RequestID), contract.MaxIDBytes)
	assert.LessOrEqual(t, len(c.DisaggRequestID), contract.MaxIDBytes)
	assert.LessOrEqual(t, c.OutputIndex, uint32(contract.MaxIndex))
	assert.NotEmpty(t, c.Frames, "a record is one chunk at least")
	assert.LessOrEqual(t, c.StartedAt, c.Time)
	assert.Equal(t, times.Last, c.Time)
	joined := 0
	for _, frame := range c.Frames {
		joined += len(frame)
	}
	assert.Equal(t, lengthOfText(attributes), joined, "the chunks share the text out, and nothing is left")
	assert.Len(t, c.TokenIDs, numberOfTokens(attributes))
}

func checkEnd(t *testing.T, d *Decoder, attributes pcommon.Map, at uint64) {
	e, err := d.End(attributes, at)
	if err != nil {
		assertKnown(t, err)
		return
	}
	assert.NotEmpty(t, e.RequestID)
	assert.LessOrEqual(t, len(e.RequestID), contract.MaxIDBytes)
	assert.Equal(t, at, e.Time)
}

func assertKnown(t *testing.T, err error) {
	for _, known := range []error{attr.ErrMissing, attr.ErrType, attr.ErrRange, attr.ErrTooLong, attr.ErrPacking, attr.ErrMismatch} {
		if errors.Is(err, known) {
			return
		}
	}
	t.Errorf("an error that nobody knows: %v", err)
}

func lengthOfText(attributes pcommon.Map) int {
	v := last(attributes, contract.TextDiff)
	if v.Type() != pcommon.ValueTypeSlice {
		return lengthOf(v)
	}
	length := 0
	for _, element := range v.Slice().All() {
		length += lengthOf(element)
	}
	return length
}

func lengthOf(v pcommon.Value) int {
	if v.Type() == pcommon.ValueTypeBytes {
		return v.Bytes().Len()
	}
	return len(v.Str())
}

func numberOfTokens(attributes pcommon.Map) int {
	switch v := last(attributes, contract.TokenIDsDiff); v.Type() {
	case pcommon.ValueTypeSlice:
		return v.Slice().Len()
	case pcommon.ValueTypeBytes:
		return v.Bytes().Len() / 4
	default:
		return 0
	}
}

// last returns the value that counts where OTLP carries a key more than once, which it should not but can.
func last(attributes pcommon.Map, key string) pcommon.Value {
	v := pcommon.NewValueEmpty()
	for k, value := range attributes.All() {
		if k == key && !attr.Absent(value) {
			v = value
		}
	}
	return v
}
