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
var causes = [...]string{
	assembly.Finished:      "finished",
	assembly.RequestEnd:    "request_end",
	assembly.Evicted:       "evicted",
	assembly.Idle:          "idle_timeout",
	assembly.Shutdown:      "shutdown",
	assembly.ChunksMissing: "chunks_missing",
}

// outcomes are numbers of chunks, by what became of them.
type outcomes [len(outcomeNames)]int

// outcomeNames are the values of the outcome attribute, but for that of malformed chunks.
var outcomeNames = [...]string{
	assembly.Accepted:    "accepted",
	assembly.Duplicate:   "duplicate",
	assembly.Late:        "late",
	assembly.Conflicting: "conflicting",
}

// telemetry counts for the self metrics. What several pipelines share adds up on one meter: there are no gauges.
type telemetry struct {
	builder   *metadata.TelemetryBuilder
	byOutcome [len(outcomeNames)]metric.AddOption
	malformed metric.AddOption
	byCause   [len(causes)]metric.AddOption
	byReason  map[dropReason]metric.AddOption
	dropped   tally.Tally
}

// newTelemetry returns the counters, each there with 0 from the start, so that an alert can be written on it.
func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{
		builder:   builder,
		malformed: with("outcome", "malformed"),
		byReason:  map[dropReason]metric.AddOption{},
	}
	ctx := context.Background()
	for outcome, name := range outcomeNames {
		t.byOutcome[outcome] = with("outcome", name)
		builder.ProcessorRawOutputChunks.Add(ctx, 0, t.byOutcome[outcome])
	}
	builder.ProcessorRawOutputChunks.Add(ctx, 0, t.malformed)
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
	builder.ProcessorRawOutputMissingChunks.Add(ctx, 0)
	builder.ProcessorRawOutputEmitterDroppedChunks.Add(ctx, 0)
	builder.ProcessorRawOutputPendingOutputs.Add(ctx, 0)
	builder.ProcessorRawOutputPendingBytes.Add(ctx, 0)
	return t, nil
}

func with(key, value string) metric.AddOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

func (t *telemetry) addOutcomes(chunks outcomes) {
	for outcome, n := range chunks {
		if n > 0 {
			t.builder.ProcessorRawOutputChunks.Add(context.Background(), int64(n), t.byOutcome[outcome])
		}
	}
}

func (t *telemetry) addMalformed() {
	t.builder.ProcessorRawOutputChunks.Add(context.Background(), 1, t.malformed)
}

func (t *telemetry) addEnded(ended []assembly.Ended) {
	var records [len(causes)]int64
	for i := range ended {
		records[ended[i].Cause]++
	}
	for cause, n := range records {
		if n > 0 {
			t.builder.ProcessorRawOutputRecords.Add(context.Background(), n, t.byCause[cause])
		}
	}
}

func (t *telemetry) addTally(tally assembly.Tally) {
	ctx := context.Background()
	if tally.EmptyOutputs > 0 {
		t.builder.ProcessorRawOutputEmptyOutputs.Add(ctx, int64(tally.EmptyOutputs))
	}
	if tally.MissingChunks > 0 {
		t.builder.ProcessorRawOutputMissingChunks.Add(ctx, tally.MissingChunks)
	}
	if tally.EmitterDropped > 0 {
		t.builder.ProcessorRawOutputEmitterDroppedChunks.Add(ctx, tally.EmitterDropped)
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
