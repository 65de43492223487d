package rawoutputprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otel-rawoutput/rawoutput/internal/assembly"
	"github.com/otel-rawoutput/rawoutput/internal/tally"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor/internal/metadata"
)

// dropReason is why a record is lost.
type dropReason string

// The reasons, as metadata.yaml lists them.
const (
	rejected   dropReason = "rejected"
	queueFull  dropReason = "queue_full"
	atShutdown dropReason = "shutdown"
)

// causes are the values of the end_reason attribute.
var causes = map[assembly.Cause]string{
	assembly.Finished:   "finished",
	assembly.RequestEnd: "request_end",
	assembly.Evicted:    "evicted",
	assembly.Idle:       "idle_timeout",
	assembly.Shutdown:   "shutdown",
}

// telemetry counts for the self metrics. What several pipelines share adds up on one meter: there are no gauges.
type telemetry struct {
	builder  *metadata.TelemetryBuilder
	accepted metric.AddOption
	malform  metric.AddOption
	byCause  map[assembly.Cause]metric.AddOption
	byReason map[dropReason]metric.AddOption
	dropped  tally.Tally
}

// newTelemetry returns the counters, each there with 0 from the start, so that an alert can be written on it.
func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{
		builder:  builder,
		accepted: with("outcome", "accepted"),
		malform:  with("outcome", "malformed"),
		byCause:  map[assembly.Cause]metric.AddOption{},
		byReason: map[dropReason]metric.AddOption{},
	}
	ctx := context.Background()
	builder.ProcessorRawOutputChunks.Add(ctx, 0, t.accepted)
	builder.ProcessorRawOutputChunks.Add(ctx, 0, t.malform)
	for cause, name := range causes {
		t.byCause[cause] = with("end_reason", name)
		builder.ProcessorRawOutputRecords.Add(ctx, 0, t.byCause[cause])
	}
	for _, reason := range [...]dropReason{rejected, queueFull, atShutdown} {
		t.byReason[reason] = with("reason", string(reason))
		builder.ProcessorRawOutputDroppedRecords.Add(ctx, 0, t.byReason[reason])
	}
	builder.ProcessorRawOutputEmptyOutputs.Add(ctx, 0)
	builder.ProcessorRawOutputInconsistentRecords.Add(ctx, 0)
	builder.ProcessorRawOutputPendingOutputs.Add(ctx, 0)
	builder.ProcessorRawOutputPendingBytes.Add(ctx, 0)
	return t, nil
}

func with(key, value string) metric.AddOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

func (t *telemetry) addAccepted(chunks int) {
	if chunks > 0 {
		t.builder.ProcessorRawOutputChunks.Add(context.Background(), int64(chunks), t.accepted)
	}
}

func (t *telemetry) addMalformed() {
	t.builder.ProcessorRawOutputChunks.Add(context.Background(), 1, t.malform)
}

func (t *telemetry) addEnded(ended []assembly.Ended) {
	for i := range ended {
		t.builder.ProcessorRawOutputRecords.Add(context.Background(), 1, t.byCause[ended[i].Cause])
	}
}

func (t *telemetry) addEmpty(outputs int) {
	if outputs > 0 {
		t.builder.ProcessorRawOutputEmptyOutputs.Add(context.Background(), int64(outputs))
	}
}

func (t *telemetry) addInconsistent(records int) {
	if records > 0 {
		t.builder.ProcessorRawOutputInconsistentRecords.Add(context.Background(), int64(records))
	}
}

func (t *telemetry) addDropped(records int, reason dropReason) (total int64, report bool) {
	t.builder.ProcessorRawOutputDroppedRecords.Add(context.Background(), int64(records), t.byReason[reason])
	return t.dropped.Add(records)
}

// pending is what is in flight, as the up-down counters have it.
type pending struct{ outputs, bytes int64 }

// moveTo makes p the new value and returns the difference.
func (p *pending) moveTo(value pending) (delta pending) {
	delta = pending{value.outputs - p.outputs, value.bytes - p.bytes}
	*p = value
	return delta
}

func (t *telemetry) addPending(delta pending) {
	if delta.outputs != 0 {
		t.builder.ProcessorRawOutputPendingOutputs.Add(context.Background(), delta.outputs)
	}
	if delta.bytes != 0 {
		t.builder.ProcessorRawOutputPendingBytes.Add(context.Background(), delta.bytes)
	}
}

func (t *telemetry) addRefusedBytes(delta int64) { t.addPending(pending{bytes: delta}) }
