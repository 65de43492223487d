package rawoutputexporter

import (
	"cmp"
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
	hours := enc.filled()
	if len(hours) > 0 {
		e.write(ctx, hours)
	}
	if e.leavesInQueue(hours) {
		return errStopped
	}
	e.telemetry.addSkipped(enc.skipped)
	e.drop(enc.malformed, malformed, enc.problem)
	e.drop(enc.tooLarge, tooLarge, errTooLarge)
	for _, h := range hours {
		if h.err != nil {
			e.drop(h.records, e.givenUpBecause(h.err), h.err)
		}
	}
	return nil
}

var errTooLarge = errors.New("the line is longer than max_record_bytes")

// write writes the lines of each hour: until all are written, patience ends, or the exporter is stopped. What it gives up
// has an error.
func (e *rawOutputExporter[T]) write(ctx context.Context, hours []*hour) {
	if again := e.attempt(hours); len(again) > 0 && e.cfg.RetryOnFailure.Enabled {
		e.retry(ctx, again)
	}
}

// errNotWritten says that there is something to try again. What it failed with does not reach the retries: it might be an
// error that means something to them.
var errNotWritten = errors.New("not written")

// retry tries again what the first attempt could not write.
func (e *rawOutputExporter[T]) retry(ctx context.Context, hours []*hour) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.stopping, func() { cancel(errStopped) })()

	cfg := &e.cfg.RetryOnFailure
	delays := &backoff.ExponentialBackOff{
		InitialInterval: cfg.InitialInterval, MaxInterval: cfg.MaxInterval,
		Multiplier: cfg.Multiplier, RandomizationFactor: cfg.RandomizationFactor,
	}
	waited := false
	attempt := func() (struct{}, error) {
		if waited { // backoff begins with an attempt, which was made, and not with a wait
			hours = e.attempt(hours)
		}
		waited = true
		if len(hours) > 0 {
			return struct{}{}, errNotWritten
		}
		return struct{}{}, nil
	}
	_, _ = backoff.Retry(ctx, attempt, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(cfg.MaxElapsedTime))
}

// attempt writes the lines of each hour, and returns the hours to try again. One that may have been written is not among
// them: its lines might be there twice.
func (e *rawOutputExporter[T]) attempt(hours []*hour) (again []*hour) {
	var failure error
	for _, h := range hours {
		if e.ending.Err() != nil {
			h.err = cmp.Or(h.err, errStopped)
			continue
		}
		h.err = e.files.writer.Append(h.key, h.lines)
		failure = cmp.Or(failure, h.err)
		switch {
		case h.err == nil:
			e.telemetry.addWritten(h.records, len(h.lines))
		case !errors.Is(h.err, hourly.ErrUncertain):
			again = append(again, h)
		}
	}
	e.health.report(e.host, e.logger, failure)
	return again
}

// givenUpBecause is why records are lost whose last attempt failed with err.
func (e *rawOutputExporter[T]) givenUpBecause(err error) dropReason {
	if errors.Is(err, errStopped) || e.cfg.RetryOnFailure.Enabled && e.stopping.Err() != nil {
		return atShutdown
	}
	return reasonOf(err)
}

// leavesInQueue reports whether a batch stays in the queue on disk, for the next start: because the exporter is stopped and
// could write none of these hours.
func (e *rawOutputExporter[T]) leavesInQueue(hours []*hour) bool {
	for _, h := range hours {
		if h.err == nil || errors.Is(h.err, hourly.ErrUncertain) {
			return false
		}
	}
	return len(hours) > 0 && e.cfg.hasQueueOnDisk() && e.stopping.Err() != nil
}
