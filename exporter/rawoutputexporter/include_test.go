package rawoutputexporter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadata"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// withMore is the line of recordOf with more keys.
func withMore(request, text, more string) string {
	return strings.TrimSuffix(line(request, text), "}\n") + more + "}\n"
}

func all(cfg *Config) {
	cfg.Include = []string{"attributes", "trace", "resource", "delivery", "frame_times"}
}

// Each record of a batch has what is its own.
func TestInclude(t *testing.T) {
	f := newFixture(t, all)
	known := func(r plog.LogRecord) {
		recordOf("1", "")(r)
		r.SetTraceID(pcommon.TraceID{1})
		r.SetSpanID(pcommon.SpanID{2})
		r.Attributes().PutInt(contract.Chunks, 4)
		r.Attributes().PutInt(contract.MissingChunks, 1)
		r.Attributes().PutInt(contract.DuplicateChunks, 2)
		r.Attributes().PutEmptyBytes(contract.FrameTimes).FromRaw([]byte{9, 0, 0, 0})
		r.Attributes().PutStr("model", "m")
	}
	logs := batch(known, recordOf("2", ""))
	logs.ResourceLogs().At(0).Resource().Attributes().PutStr("service.instance.id", "i")
	batch(recordOf("3", "")).ResourceLogs().MoveAndAppendTo(logs.ResourceLogs())
	require.NoError(t, f.ConsumeLogs(t.Context(), logs))

	const nothing = `"trace_id":null,"span_id":null,"frame_times":null,"attributes":{}`
	assert.Equal(t, withMore("1", "", `,"chunks":4,"missing_chunks":1,"duplicate_chunks":2,"resource":{"service.instance.id":"i"},`+
		`"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000","frame_times":[9],"attributes":{"model":"m"}`)+
		withMore("2", "", `,"chunks":null,"missing_chunks":null,"duplicate_chunks":null,"resource":{"service.instance.id":"i"},`+nothing)+
		withMore("3", "", `,"chunks":null,"missing_chunks":null,"duplicate_chunks":null,"resource":{},`+nothing),
		f.disk.content(theHour))
	f.shutdown(t)
}

// A record's own span is made up; the chunks were in its parent, as those of logs were in theirs.
func TestIncludeOfSpans(t *testing.T) {
	directory := t.TempDir()
	cfg := createDefaultConfig().(*Config)
	cfg.Directory, cfg.Include = directory, []string{"trace"}
	e, err := NewFactory().CreateTraces(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	traces := ptrace.NewTraces()
	span := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName(contract.EventRecord)
	span.SetEndTimestamp(finishedAt)
	span.SetTraceID(pcommon.TraceID{1})
	span.SetSpanID(pcommon.SpanID{3})
	span.SetParentSpanID(pcommon.SpanID{2})
	span.Attributes().PutStr(contract.RequestID, "1")
	span.Attributes().PutStr(contract.Text, "")
	require.NoError(t, e.ConsumeTraces(t.Context(), traces))
	require.NoError(t, e.Shutdown(t.Context()))
	assert.Equal(t, withMore("1", "", `,"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"`),
		fileLines(t, directory, theHour)[0]+"\n")
}
