package e2e

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// TestHostileInput sends what no emitter should. All of it is counted, and what can be a record is one.
func TestHostileInput(t *testing.T) {
	p := onePipeline(t, "logs")
	p.processor = "max_pending: 100"
	c := start(t, []string{configOf(p)})
	client := dial(t, p.socket)

	logs, add := newBatch()
	at := func(time pcommon.Timestamp) {
		record := add()
		record.SetTimestamp(time)
		record.Attributes().PutBool(contract.IsFinal, true)
	}
	at(math.MaxUint64)
	at(math.MaxInt64)
	at(1)
	at(0) // of its receipt
	malformed := 0
	wrong := func(set func(pcommon.Map)) {
		set(add().Attributes())
		malformed++
	}
	wrong(func(m pcommon.Map) { m.PutStr(contract.RequestID, strings.Repeat("x", 4<<20)) })
	wrong(func(m pcommon.Map) { m.PutEmptyMap(contract.RequestID) })
	wrong(func(m pcommon.Map) { m.PutDouble(contract.RequestID, math.NaN()) })
	wrong(func(m pcommon.Map) { m.PutInt(contract.OutputIndex, math.MinInt64) })
	wrong(func(m pcommon.Map) { m.PutEmptySlice(contract.TextDiff).AppendEmpty().SetEmptyMap() })
	wrong(func(m pcommon.Map) { m.PutEmptyBytes(contract.TokenIDsDiff).FromRaw(make([]byte, 4<<20+1)) })
	wrong(func(m pcommon.Map) { m.PutEmptyBytes(contract.FrameLengths).FromRaw([]byte{255, 255, 255, 127}) })
	wrong(func(m pcommon.Map) { m.PutInt(contract.Streaming, 1) })
	require.NoError(t, client.SendLogs(background(t), logs))
	assert.Equal(t, malformed, sum(t, c, chunks, "outcome", "malformed"))
	assert.Equal(t, 4, sum(t, c, writtenRecords))

	const outputs = 100_000
	logs, add = newBatch()
	for i := range outputs {
		add().Attributes().PutInt(contract.OutputIndex, int64(i))
	}
	require.NoError(t, client.SendLogs(background(t), logs))
	assert.Equal(t, 100, sum(t, c, pendingOutputs))
	assert.Equal(t, outputs-100, sum(t, c, records, "end_reason", "evicted"))
	assert.Equal(t, 4+outputs-100, sum(t, c, writtenRecords))
	assert.Equal(t, 0, sum(t, c, droppedRecords))
	stop(t, c)
	assert.Equal(t, 4+outputs, lines(t, p.directory))
	for _, hour := range []string{"2554-07-21T23", "2262-04-11T23", "1970-01-01T00"} {
		assert.DirExists(t, p.directory+"/"+hour)
	}
	assert.NotContains(t, c.Log(), "xxx")
}

// newBatch returns a batch of one server, and what adds a chunk to it.
func newBatch() (logs plog.Logs, add func() plog.LogRecord) {
	logs = plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	for key, value := range aServer {
		resource.Resource().Attributes().PutStr(key, value)
	}
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	return logs, func() plog.LogRecord {
		record := records.AppendEmpty()
		record.SetEventName(contract.EventChunk)
		record.SetTimestamp(streamStartedAt)
		record.Attributes().PutStr(contract.RequestID, "r")
		record.Attributes().PutStr(contract.TextDiff, "x")
		return record
	}
}
