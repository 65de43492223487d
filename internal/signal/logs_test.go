package signal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

func onlyLog(batch plog.Logs) plog.LogRecord {
	return batch.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
}

func TestLogEvent(t *testing.T) {
	batch := logs.build(resource("r", scope("s", "a")))
	record := onlyLog(batch)
	record.SetTraceID(pcommon.TraceID{1})
	record.SetSpanID(pcommon.SpanID{2})
	record.SetFlags(3)
	record.Attributes().PutStr("k", "v")
	e := onlyEvent(t, logs, batch)
	assert.Equal(t, Trace{TraceID: pcommon.TraceID{1}, SpanID: pcommon.SpanID{2}, Flags: 3}, e.Trace)
	assert.Equal(t, map[string]any{"k": "v"}, e.Attributes.AsRaw())
	assert.Zero(t, e.Start, "a log record has no start")
}

func TestLogTime(t *testing.T) {
	for _, test := range []struct {
		name                string
		timestamp, observed pcommon.Timestamp
		want                uint64
	}{
		{"its own", 1, 2, 1},
		{"else the observed", 0, 2, 2},
		{"else none", 0, 0, 0},
		{"the latest", latest, 0, latest},
	} {
		t.Run(test.name, func(t *testing.T) {
			batch := logs.build(resource("r", scope("s", "a")))
			onlyLog(batch).SetTimestamp(test.timestamp)
			onlyLog(batch).SetObservedTimestamp(test.observed)
			assert.Equal(t, test.want, onlyEvent(t, logs, batch).Time)
		})
	}
}

func TestLogRecordOfABatch(t *testing.T) {
	from := scopesOf(logs, logs.build(resource("r", scope("s", "x"))))[0]
	trace := Trace{TraceID: pcommon.TraceID{1}, SpanID: pcommon.SpanID{2}, Flags: 1, State: "of spans only"}
	b := logs.NewBatch()
	b.Append(&from, trace, 5, latest).PutStr("k", "v")

	record := onlyLog(b.Batch())
	assert.Equal(t, contract.EventRecord, record.EventName())
	assert.Equal(t, pcommon.Timestamp(latest), record.Timestamp())
	assert.Equal(t, plog.SeverityNumberDebug, record.SeverityNumber())
	assert.Equal(t, "DEBUG", record.SeverityText())
	assert.Equal(t, pcommon.ValueTypeEmpty, record.Body().Type(), "the body is unset")
	assert.Equal(t, trace.TraceID, record.TraceID())
	assert.Equal(t, trace.SpanID, record.SpanID())
	assert.Equal(t, plog.LogRecordFlags(1), record.Flags())
	assert.Equal(t, map[string]any{"k": "v"}, record.Attributes().AsRaw())
	assert.Equal(t, []string{"r(r schema)/s(s schema)", contract.EventRecord}, walk(logs, b.Batch()))
}
