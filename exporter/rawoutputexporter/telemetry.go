package rawoutputexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadata"
	"github.com/otel-rawoutput/rawoutput/internal/tally"
)

// telemetry counts for the self metrics: written + dropped + skipped is what was received.
type telemetry struct {
	builder  *metadata.TelemetryBuilder
	byReason map[dropReason]metric.AddOption
	dropped  tally.Tally
}

// newTelemetry returns the counters, each there with 0 from the start, so that an alert can be written on it.
func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{builder: builder, byReason: map[dropReason]metric.AddOption{}}
	ctx := context.Background()
	for _, reason := range dropReasons {
		t.byReason[reason] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", string(reason))))
		builder.ExporterRawOutputDroppedRecords.Add(ctx, 0, t.byReason[reason])
	}
	builder.ExporterRawOutputSkippedRecords.Add(ctx, 0)
	builder.ExporterRawOutputWrittenRecords.Add(ctx, 0)
	builder.ExporterRawOutputWrittenBytes.Add(ctx, 0)
	return t, nil
}

func (t *telemetry) addWritten(records, bytes int) {
	t.builder.ExporterRawOutputWrittenRecords.Add(context.Background(), int64(records))
	t.builder.ExporterRawOutputWrittenBytes.Add(context.Background(), int64(bytes))
}

func (t *telemetry) addSkipped(records int) {
	if records > 0 {
		t.builder.ExporterRawOutputSkippedRecords.Add(context.Background(), int64(records))
	}
}

func (t *telemetry) addDropped(records int, reason dropReason) (total int64, report bool) {
	t.builder.ExporterRawOutputDroppedRecords.Add(context.Background(), int64(records), t.byReason[reason])
	return t.dropped.Add(records)
}
