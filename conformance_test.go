package rawoutput

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// TestConformance sends every case through the processor into the exporter, in every way that must make no difference, and
// expects the original hook's bytes.
func TestConformance(t *testing.T) {
	cases, err := conformance.Load("testdata/conformance")
	require.NoError(t, err)
	for _, c := range cases {
		variants, err := c.Variants()
		require.NoError(t, err)
		for _, v := range variants {
			for _, signal := range []string{"logs", "traces"} {
				t.Run(c.Name+"/"+v.Name+"/"+signal, func(t *testing.T) { runCase(t, c, v, signal) })
			}
		}
	}
}

func runCase(t *testing.T, c conformance.Case, v conformance.Variant, signal string) {
	directory := t.TempDir()
	send, shutdown := pipelineOf(t, signal, c.MaxPending, directory)
	for _, batch := range v.Batches(c.Events) {
		require.NoError(t, send(batch))
	}
	shutdown()
	files, err := conformance.Files(directory)
	require.NoError(t, err)
	got, left := conformance.WithoutShutdown(files)
	assert.Equal(t, c.Files, got)
	assert.LessOrEqual(t, left, c.LeftInFlight) // an output without text and ids leaves no line
}

// pipelineOf starts a processor in front of an exporter. shutdown stops the one and then the other.
func pipelineOf(t *testing.T, signal string, maxPending int, directory string) (send func([]replay.Record) error, shutdown func()) {
	ctx := context.Background()
	host := componenttest.NewNopHost()
	processors, exporters := NewProcessorFactory(), NewExporterFactory()
	processorCfg := processors.CreateDefaultConfig().(*ProcessorConfig)
	processorCfg.MaxPending = maxPending
	exporterCfg := exporters.CreateDefaultConfig().(*ExporterConfig)
	exporterCfg.Directory = directory
	processorSet, exporterSet := processortest.NewNopSettings(processors.Type()), exportertest.NewNopSettings(exporters.Type())
	resource := map[string]string{"service.name": "conformance"}

	if signal == "logs" {
		e, err := exporters.CreateLogs(ctx, exporterSet, exporterCfg)
		require.NoError(t, err)
		p, err := processors.CreateLogs(ctx, processorSet, processorCfg, e)
		require.NoError(t, err)
		require.NoError(t, e.Start(ctx, host))
		require.NoError(t, p.Start(ctx, host))
		return func(records []replay.Record) error { return p.ConsumeLogs(ctx, replay.Logs(records, resource)) },
			func() { assert.NoError(t, p.Shutdown(ctx)); assert.NoError(t, e.Shutdown(ctx)) }
	}
	e, err := exporters.CreateTraces(ctx, exporterSet, exporterCfg)
	require.NoError(t, err)
	p, err := processors.CreateTraces(ctx, processorSet, processorCfg, e)
	require.NoError(t, err)
	require.NoError(t, e.Start(ctx, host))
	require.NoError(t, p.Start(ctx, host))
	return func(records []replay.Record) error { return p.ConsumeTraces(ctx, replay.Traces(records, resource)) },
		func() { assert.NoError(t, p.Shutdown(ctx)); assert.NoError(t, e.Shutdown(ctx)) }
}
