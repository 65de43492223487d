package rawoutputexporter

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadata"
	"github.com/otel-rawoutput/rawoutput/internal/tally"
	"github.com/otel-rawoutput/rawoutput/internal/upkeep"
)

// telemetry counts for the self metrics: written + dropped + skipped is what was received.
type telemetry struct {
	builder   *metadata.TelemetryBuilder
	logger    *zap.Logger
	directory metric.RecordOption
	byReason  map[dropReason]metric.AddOption

	dropped, syncsFailed, suffixes, upkeepFailed tally.Tally
}

var _ upkeep.Observer = (*telemetry)(nil)

// newTelemetry returns the counters, each there with 0 from the start, so that an alert can be written on it.
func newTelemetry(set component.TelemetrySettings, directory string) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{
		builder:   builder,
		logger:    set.Logger,
		directory: metric.WithAttributeSet(attribute.NewSet(attribute.String("directory", directory))),
		byReason:  map[dropReason]metric.AddOption{},
	}
	ctx := context.Background()
	for _, reason := range dropReasons {
		t.byReason[reason] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", string(reason))))
		builder.ExporterRawOutputDroppedRecords.Add(ctx, 0, t.byReason[reason])
	}
	builder.ExporterRawOutputSkippedRecords.Add(ctx, 0)
	builder.ExporterRawOutputWrittenRecords.Add(ctx, 0)
	builder.ExporterRawOutputWrittenBytes.Add(ctx, 0)
	builder.ExporterRawOutputFsyncFailures.Add(ctx, 0)
	builder.ExporterRawOutputOpenFiles.Add(ctx, 0)
	builder.ExporterRawOutputRollbacks.Add(ctx, 0)
	builder.ExporterRawOutputTornBytes.Add(ctx, 0)
	builder.ExporterRawOutputTornTails.Add(ctx, 0)
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

// What follows implements upkeep.Observer, and hourly.Observer for fileObserver.

// Opened counts open files.
func (t *telemetry) Opened(n int) {
	t.builder.ExporterRawOutputOpenFiles.Add(context.Background(), int64(n))
}

// Wrote is the duration of a write.
func (t *telemetry) Wrote(d time.Duration) {
	t.builder.ExporterRawOutputWriteDuration.Record(context.Background(), d.Seconds())
}

// Synced is the duration of an fsync.
func (t *telemetry) Synced(d time.Duration) {
	t.builder.ExporterRawOutputFsyncDuration.Record(context.Background(), d.Seconds())
}

// SyncFailed counts an fsync that failed.
func (t *telemetry) SyncFailed(err error) {
	t.builder.ExporterRawOutputFsyncFailures.Add(context.Background(), 1)
	if total, report := t.syncsFailed.Add(1); report {
		t.logger.Warn("What was written may not be safe; new files are made", zap.Int64("fsync_failures", total), zap.Error(err))
	}
}

// TookSuffix logs why a file does not have the usual name.
func (t *telemetry) TookSuffix(path string, reason error) {
	if _, report := t.suffixes.Add(1); report {
		t.logger.Info("A raw-output file got a suffix", zap.String("file", path), zap.Error(reason))
	}
}

// RolledBack counts a write that was undone.
func (t *telemetry) RolledBack() {
	t.builder.ExporterRawOutputRollbacks.Add(context.Background(), 1)
}

// TornTail counts a torn line that was cut off.
func (t *telemetry) TornTail(bytes int64) {
	t.builder.ExporterRawOutputTornTails.Add(context.Background(), 1)
	t.builder.ExporterRawOutputTornBytes.Add(context.Background(), bytes)
}

// Free is how many bytes can still be written.
func (t *telemetry) Free(bytes int64) {
	t.builder.ExporterRawOutputFreeBytes.Record(context.Background(), bytes, t.directory)
}

// Tidied logs what was removed and compressed.
func (t *telemetry) Tidied(r upkeep.Round) {
	t.logger.Info("Raw-output files were removed or compressed",
		zap.Int("removed", r.Removed), zap.Int64("removed_bytes", r.Freed), zap.Int("compressed", r.Compressed))
}

// UpkeepFailed logs what could not be removed, compressed or repaired.
func (t *telemetry) UpkeepFailed(err error) {
	if total, report := t.upkeepFailed.Add(1); report {
		t.logger.Warn("A raw-output file could not be looked after", zap.Int64("failures", total), zap.Error(err))
	}
}
