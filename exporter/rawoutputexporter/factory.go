package rawoutputexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadata"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// NewFactory returns the factory of the raw_output exporter.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(
		metadata.Type,
		createDefaultConfig,
		exporter.WithLogs(createLogs, metadata.LogsStability),
		exporter.WithTraces(createTraces, metadata.TracesStability),
	)
}

func createLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	e, err := newExporter[plog.Logs](cfg.(*Config), set, signal.Logs{})
	if err != nil {
		return nil, err
	}
	queued, err := exporterhelper.NewLogs(ctx, set, cfg, e.push, e.queueOptions()...)
	if err != nil {
		e.release(e.cfg)
		return nil, err
	}
	e.component, e.enqueue = queued, queued.ConsumeLogs
	return logsExporter{e}, nil
}

func createTraces(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
	e, err := newExporter[ptrace.Traces](cfg.(*Config), set, signal.Traces{})
	if err != nil {
		return nil, err
	}
	queued, err := exporterhelper.NewTraces(ctx, set, cfg, e.push, e.queueOptions()...)
	if err != nil {
		e.release(e.cfg)
		return nil, err
	}
	e.component, e.enqueue = queued, queued.ConsumeTraces
	return tracesExporter{e}, nil
}

type logsExporter struct{ *rawOutputExporter[plog.Logs] }

// ConsumeLogs implements exporter.Logs.
func (e logsExporter) ConsumeLogs(ctx context.Context, batch plog.Logs) error {
	return e.consume(ctx, batch)
}

type tracesExporter struct {
	*rawOutputExporter[ptrace.Traces]
}

// ConsumeTraces implements exporter.Traces.
func (e tracesExporter) ConsumeTraces(ctx context.Context, batch ptrace.Traces) error {
	return e.consume(ctx, batch)
}
