package rawoutputexporter

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// push writes the records of a batch, or drops and counts them. It returns no error: its caller could do no more.
func (e *rawOutputExporter[T]) push(ctx context.Context, batch T) error {
	enc := e.encoders.Get().(*encoder)
	defer e.encoders.Put(enc)
	enc.begin(time.Now())
	defer enc.end()

	e.signal.Walk(batch, enc)
	e.telemetry.addSkipped(enc.skipped)
	if enc.malformed > 0 {
		e.drop(enc.malformed, malformed, enc.problem)
	}
	if len(enc.hours) > 0 {
		e.write(ctx, enc.hours)
	}
	return nil
}

// write writes the lines of each hour, and drops those that it gives up.
func (e *rawOutputExporter[T]) write(ctx context.Context, hours []*hour) {
	hours, err := e.attempt(hours)
	if err != nil && e.cfg.RetryOnFailure.Enabled {
		hours, err = e.retry(ctx, hours, err)
	}
	for _, h := range hours {
		e.drop(h.records, e.givenUpBecause(err), err)
	}
	e.health.report(e.host, err)
}

// attempt writes the lines of each hour, and returns the hours that failed with the latest error.
func (e *rawOutputExporter[T]) attempt(hours []*hour) (failed []*hour, latest error) {
	for _, h := range hours {
		if err := e.writer.Append(h.name, h.lines); err != nil {
			failed, latest = append(failed, h), err
			continue
		}
		e.telemetry.addWritten(h.records, len(h.lines))
	}
	return failed, latest
}

// retry goes on with the hours that failed until all are written, patience ends, or the exporter is stopped.
func (e *rawOutputExporter[T]) retry(ctx context.Context, hours []*hour, latest error) ([]*hour, error) {
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
			return struct{}{}, latest
		}
		hours, latest = e.attempt(hours)
		return struct{}{}, latest
	}, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(cfg.MaxElapsedTime))
	return hours, latest
}

// givenUpBecause is why records are lost whose last attempt failed with err.
func (e *rawOutputExporter[T]) givenUpBecause(err error) dropReason {
	if e.stopping.Err() != nil {
		return atShutdown
	}
	return reasonOf(err)
}
