package rawoutputprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"github.com/otel-rawoutput/rawoutput/internal/signal"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor/internal/metadata"
)

// NewFactory returns the factory of the raw_output processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithLogs(createLogs, metadata.LogsStability),
		processor.WithTraces(createTraces, metadata.TracesStability),
	)
}

func createLogs(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Logs) (processor.Logs, error) {
	p, err := newProcessor[plog.Logs](cfg.(*Config), set, signal.Logs{}, next.ConsumeLogs)
	if err != nil {
		return nil, err
	}
	return logsProcessor{p}, nil
}

func createTraces(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	p, err := newProcessor[ptrace.Traces](cfg.(*Config), set, signal.Traces{}, next.ConsumeTraces)
	if err != nil {
		return nil, err
	}
	return tracesProcessor{p}, nil
}

type logsProcessor struct{ *rawOutputProcessor[plog.Logs] }

// ConsumeLogs implements processor.Logs.
func (p logsProcessor) ConsumeLogs(ctx context.Context, batch plog.Logs) error {
	return p.consume(ctx, batch)
}

type tracesProcessor struct {
	*rawOutputProcessor[ptrace.Traces]
}

// ConsumeTraces implements processor.Traces.
func (p tracesProcessor) ConsumeTraces(ctx context.Context, batch ptrace.Traces) error {
	return p.consume(ctx, batch)
}
