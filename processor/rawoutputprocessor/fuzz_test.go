package rawoutputprocessor

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor/internal/metadatatest"
)

// FuzzConsume feeds arbitrary OTLP to the processor, as logs and as traces. Whatever comes, it does not fail, everything is
// counted, and nothing is left at the end. The seeds are the conformance streams.
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
	directory := filepath.Join("..", "..", "testdata", "conformance")
	if _, err := os.Stat(directory); err != nil {
		f.Fatal(err)
	}
	cases, err := conformance.Load(directory)
	require.NoError(f, err)
	for _, c := range cases {
		for _, form := range []replay.Form{replay.Single, replay.Array, replay.Packed} {
			records := replay.Records(c.Events[:min(len(c.Events), 12)], replay.Options{Form: form, ChunksPerRecord: 3, FullText: replay.EveryChunk})
			logs, err := new(plog.ProtoMarshaler).MarshalLogs(replay.Logs(records, map[string]string{"service.name": "fuzz"}))
			require.NoError(f, err)
			f.Add(logs)
			traces, err := new(ptrace.ProtoMarshaler).MarshalTraces(replay.Traces(records, nil))
			require.NoError(f, err)
			f.Add(traces)
		}
	}
}

func consumeAnything[T any](t *testing.T, sig signal.Signal[T], data T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	cfg := createDefaultConfig().(*Config)
	cfg.MaxPending, cfg.MaxOutputBytes, cfg.MaxPendingBytes = 3, 2000, 4000
	var set processor.Settings = metadatatest.NewSettings(telemetry)
	received := 0
	p, err := newProcessor(cfg, set, sig, func(_ context.Context, batch T) error {
		sig.Names(batch, func(name string) {
			if name == "raw_output" {
				received++
			}
		})
		return nil
	})
	require.NoError(t, err)
	sent := 0
	sig.Names(data, func(name string) {
		if name == "raw_output" {
			sent++ // passes through
		}
	})
	for range 2 {
		require.NoError(t, p.consume(context.Background(), data))
		require.LessOrEqual(t, p.table.Len(), cfg.MaxPending)
		require.LessOrEqual(t, p.table.Bytes(), cfg.MaxPendingBytes)
	}
	require.NoError(t, p.Shutdown(context.Background()))
	require.Equal(t, 2*sent+metrictest.Total(t, telemetry, recordsMetric), received)
	require.Zero(t, metrictest.Total(t, telemetry, pendingMetric))
	require.Zero(t, metrictest.Total(t, telemetry, bytesMetric))
}
