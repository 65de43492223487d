package rawoutputexporter

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/otel-rawoutput/rawoutput/internal/hourly"
)

// push writes the records of a batch, or drops and counts them. It returns no error, as its caller could do no more; but
// where a stopped exporter leaves a batch in its queue on disk, nothing of it was written and nothing counted.
func (e *rawOutputExporter[T]) push(ctx context.Context, batch T) error {
	enc := e.encoders.Get().(*encoder)
	defer e.encoders.Put(enc)
	enc.begin(time.Now())
	defer enc.end()

	e.signal.Walk(batch, enc)
	failed := e.write(ctx, enc.hours)
	if e.leavesInQueue() && len(failed) > 0 && len(failed) == len(enc.hours) {
		return errStopped
	}
	e.telemetry.addSkipped(enc.skipped)
	e.drop(enc.malformed, malformed, enc.problem)
	for _, h := range failed {
		e.drop(h.records, e.givenUpBecause(h.err), h.err)
	}
	return nil
}

// write writes the lines of each hour, and returns the hours that it gives up.
func (e *rawOutputExporter[T]) write(ctx context.Context, hours []*hour) (failed []*hour) {
	if len(hours) == 0 {
		return nil
	}
	failed, lost := e.attempt(hours)
	if len(failed) > 0 && e.cfg.RetryOnFailure.Enabled {
		failed, lost = e.retry(ctx, failed, lost)
	}
	failed = append(failed, lost...)
	var err error
	if len(failed) > 0 {
		err = failed[0].err
	}
	e.health.report(e.host, err)
	return failed
}

// attempt writes the lines of each hour, and returns the hours that failed, and those for which another attempt might write
// lines twice.
func (e *rawOutputExporter[T]) attempt(hours []*hour) (failed, lost []*hour) {
	for _, h := range hours {
		h.err = e.writer.Append(h.name, h.lines)
		switch {
		case h.err == nil:
			e.telemetry.addWritten(h.records, len(h.lines))
		case errors.Is(h.err, hourly.ErrUncertain):
			lost = append(lost, h)
		default:
			failed = append(failed, h)
		}
	}
	return failed, lost
}

// retry goes on with the hours that failed until all are written, patience ends, or the exporter is stopped.
func (e *rawOutputExporter[T]) retry(ctx context.Context, failed, lost []*hour) (stillFailed, allLost []*hour) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.stopping, func() { cancel(errStopped) })()

	cfg := &e.cfg.RetryOnFailure
	delays := &backoff.ExponentialBackOff{
		InitialInterval: cfg.InitialInterval, MaxInterval: cfg.MaxInterval,
		Multiplier: cfg.Multiplier, RandomizationFactor: cfg.RandomizationFactor,
	}
	first := true
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		if first { // it was made already
			first = false
			return struct{}{}, failed[0].err
		}
		var more []*hour
		failed, more = e.attempt(failed)
		lost = append(lost, more...)
		if len(failed) == 0 {
			return struct{}{}, nil
		}
		return struct{}{}, failed[0].err
	}, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(cfg.MaxElapsedTime))
	return failed, lost
}

// givenUpBecause is why records are lost whose last attempt failed with err.
func (e *rawOutputExporter[T]) givenUpBecause(err error) dropReason {
	if e.cfg.RetryOnFailure.Enabled && e.stopping.Err() != nil {
		return atShutdown
	}
	return reasonOf(err)
}

// leavesInQueue reports whether what can't be written stays in a queue on disk, for the next start.
func (e *rawOutputExporter[T]) leavesInQueue() bool {
	return e.cfg.hasQueueOnDisk() && e.stopping.Err() != nil
}
