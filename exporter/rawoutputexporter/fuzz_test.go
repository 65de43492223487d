package rawoutputexporter

import (
	"context"
	"encoding/json"
	"math"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadatatest"
	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
	"github.com/otel-rawoutput/rawoutput/internal/layout"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// FuzzConsume feeds arbitrary OTLP to the exporter, as logs and as traces. Whatever comes, it does not fail, everything is
// counted, each line is valid JSON in valid UTF-8, and no name is made but of an hour. The seeds are records.
func FuzzConsume(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if logs, err := new(plog.ProtoUnmarshaler).UnmarshalLogs(data); err == nil {
			consumeAnything(t, signal.Logs{}, logs)
		}
		if traces, err := new(ptrace.ProtoUnmarshaler).UnmarshalTraces(data); err == nil {
			consumeAnything(t, signal.Traces{}, traces)
		}
	})
}

func seed(f *testing.F) {
	cases, err := conformance.Load(filepath.Join("..", "..", "testdata", "conformance"))
	require.NoError(f, err)
	var events []event
	for _, c := range cases {
		for _, text := range c.Files {
			events = append(events, recordOf(c.Name, text[:min(len(text), 300)]))
		}
	}
	extremes := func(at pcommon.Timestamp) event {
		return func(r plog.LogRecord) {
			recordOf("1", "\xed\xa0\xbd\xff")(r)
			r.SetTimestamp(at)
		}
	}
	events = append(events, other, malformedRecord, extremes(0), extremes(math.MaxUint64), extremes(math.MaxInt64))
	for _, e := range events {
		logs, err := new(plog.ProtoMarshaler).MarshalLogs(batch(e, recordOf("2", "x")))
		require.NoError(f, err)
		f.Add(logs)
	}
	spans := ptrace.NewTraces()
	batch(recordOf("3", "y")).ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().
		CopyTo(spans.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().Attributes())
	spans.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetName("raw_output")
	traces, err := new(ptrace.ProtoMarshaler).MarshalTraces(spans)
	require.NoError(f, err)
	f.Add(traces)
}

func consumeAnything[T any](t *testing.T, sig signal.Signal[T], data T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = "on the disk"
	e, err := newExporter(cfg, metadatatest.NewSettings(telemetry), sig)
	require.NoError(t, err)
	defer e.release(cfg)
	d := disktest.New()
	e.useDisk(t, d.Process())
	for range 2 { // the second time with what the first left behind
		require.NoError(t, e.push(context.Background(), data))
	}
	written := 0
	for _, name := range d.Files() {
		content := d.Content(name)
		_, ok := layout.ParseHour(path.Dir(name))
		require.True(t, ok, name)
		_, ok = layout.Parse(path.Base(name))
		require.True(t, ok, name)
		require.True(t, utf8.ValidString(content))
		for line := range strings.Lines(content) {
			written++
			require.True(t, strings.HasSuffix(line, "}\n"))
			require.True(t, json.Valid([]byte(line)), line)
		}
	}
	require.Equal(t, written, metrictest.Total(t, telemetry, writtenMetric))
	require.Equal(t, 2*sig.Count(data), written+metrictest.Total(t, telemetry, droppedMetric)+metrictest.Total(t, telemetry, skippedMetric))
}
