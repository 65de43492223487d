package rawoutputexporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.uber.org/zap"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/gate"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

var errStopped = errors.New("the raw_output exporter was shut down")

// rawOutputExporter is the exporter for one signal; T is the type of a batch.
type rawOutputExporter[T any] struct {
	*shared
	cfg      *Config
	signal   signal.Signal[T]
	logger   *zap.Logger
	encoders sync.Pool // of *encoder

	// The Collector's exporter helper around push, with its queue and its own telemetry.
	component component.Component
	enqueue   signal.Consume[T]
	health    health

	stopping     context.Context // done when no attempt may wait any more
	stop         context.CancelCauseFunc
	ending       context.Context // done when no attempt may begin any more
	end          context.CancelCauseFunc
	gate         gate.Gate
	host         component.Host
	started      bool
	shutdownOnce sync.Once
	shutdownErr  error
}

func newExporter[T any](cfg *Config, set exporter.Settings, sig signal.Signal[T]) (*rawOutputExporter[T], error) {
	shared, err := acquire(cfg, set)
	if err != nil {
		return nil, err
	}
	e := &rawOutputExporter[T]{
		shared:   shared,
		cfg:      cfg,
		signal:   sig,
		logger:   set.Logger,
		encoders: sync.Pool{New: func() any { return newEncoder(cfg) }},
	}
	e.stopping, e.stop = context.WithCancelCause(context.Background())
	e.ending, e.end = context.WithCancelCause(context.Background())
	return e, nil
}

// queueOptions are those of the exporter helper. Its retry and its timeout stay off: push does its own, where what is given
// up is counted. Before a queue on disk its retry is there to hold on to what a stopped exporter could not write: it is then
// stopped too, and says so to the queue, which keeps it.
func (e *rawOutputExporter[T]) queueOptions() []exporterhelper.Option {
	options := []exporterhelper.Option{
		exporterhelper.WithCapabilities(e.Capabilities()),
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: 0}),
		exporterhelper.WithQueue(e.cfg.QueueConfig),
	}
	if e.cfg.hasQueueOnDisk() {
		hold := configretry.NewDefaultBackOffConfig()
		hold.InitialInterval, hold.MaxInterval, hold.MaxElapsedTime = time.Hour, time.Hour, 0
		options = append(options, exporterhelper.WithRetry(hold))
	}
	return options
}

// Capabilities implements exporter.Logs and exporter.Traces.
func (*rawOutputExporter[T]) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: false}
}

// off reports whether the exporter is switched off: it then writes nothing and counts nothing.
func (e *rawOutputExporter[T]) off() bool { return e.cfg.Directory == "" }

// Start implements component.Component. It fails where the directory can't be made or written to.
func (e *rawOutputExporter[T]) Start(ctx context.Context, host component.Host) error {
	if e.off() {
		e.announced.Do(func() {
			e.logger.Warn("directory is empty: the raw_output exporter is switched off and writes nothing")
		})
		return nil
	}
	e.host = host // before the queue starts, which may have something to write
	if err := e.prepare(); err != nil {
		return err
	}
	e.started = true
	e.files.begin()
	if err := e.component.Start(ctx, host); err != nil {
		return err
	}
	e.announced.Do(func() { e.logger.Info("Recording raw outputs", zap.String("directory", e.cfg.Directory)) })
	return nil
}

// prepare makes the directory, and fails where that can't be written to, unless that is to be tried again later: then each
// batch makes what is missing.
func (e *rawOutputExporter[T]) prepare() error {
	err := e.files.writer.Prepare()
	if err != nil {
		err = fmt.Errorf("directory is %q: it must be a directory that this process can write to, or one that it can make: %w",
			e.cfg.Directory, err)
	}
	if err != nil && e.cfg.RetryOnStart {
		e.health.report(e.host, e.logger, err)
		return nil
	}
	if err == nil && disk.OthersMayWrite(e.cfg.Directory) {
		e.openToAll.Do(func() {
			e.logger.Warn("Other users may write to the directory: they can remove and replace what is recorded", zap.String("directory", e.cfg.Directory))
		})
	}
	return err
}

// consume takes a batch. It never fails its sender: what is not written, now or from the queue, is dropped and counted.
func (e *rawOutputExporter[T]) consume(ctx context.Context, batch T) error {
	if e.off() {
		return nil
	}
	if !e.gate.Enter() {
		e.dropAll(batch, atShutdown, errStopped)
		return nil
	}
	defer e.gate.Leave()
	enqueue := e.enqueue
	if e.cfg.callerMayBlock() {
		enqueue = e.enqueueUntilStopped
	}
	if err := enqueue(ctx, batch); err != nil {
		e.dropAll(batch, e.enqueueFailure(err), err)
	}
	return nil
}

// enqueueUntilStopped gives up waiting for room in the queue when the exporter is stopped.
func (e *rawOutputExporter[T]) enqueueUntilStopped(ctx context.Context, batch T) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.stopping, func() { cancel(errStopped) })()
	return e.enqueue(ctx, batch)
}

// dropAll drops a batch that was not taken apart: its records are dropped, all else is skipped.
func (e *rawOutputExporter[T]) dropAll(batch T, reason dropReason, err error) {
	records := 0
	e.signal.Names(batch, func(name string) {
		if name == contract.EventRecord {
			records++
		}
	})
	e.telemetry.addSkipped(e.signal.Count(batch) - records)
	e.drop(records, reason, err)
}

// enqueueFailure is why the queue did not take a batch: push itself returns no errors.
func (e *rawOutputExporter[T]) enqueueFailure(err error) dropReason {
	switch {
	case e.stopping.Err() != nil:
		return atShutdown
	case errors.Is(err, exporterhelper.ErrQueueIsFull), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return queueFull
	case e.cfg.hasQueueOnDisk():
		return ioError
	default: // larger than the whole queue
		return queueFull
	}
}

// Shutdown implements component.Component. What waits in a queue in memory is written first, without trying again. It may
// come before Start, and again.
func (e *rawOutputExporter[T]) Shutdown(ctx context.Context) error {
	e.shutdownOnce.Do(func() { e.shutdownErr = e.shutdown(ctx) })
	return e.shutdownErr
}

func (e *rawOutputExporter[T]) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownPatience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { e.end(errStopped) })()
	e.stop(errStopped)
	errInside := e.gate.Close(ctx)
	var errComponent error
	if e.started {
		errComponent = gate.WaitFor(ctx, lastMoment, func() error { return e.component.Shutdown(ctx) })
	}
	errFiles := gate.WaitFor(ctx, lastMoment, func() error {
		e.release(e.cfg)
		return nil
	})
	return errors.Join(errInside, errComponent, errFiles)
}

const (
	// shutdownPatience is how long Shutdown waits for the disk: with that of the processor, less than orchestrators wait
	// before they kill. What is not written by then is dropped.
	shutdownPatience = 10 * time.Second
	// lastMoment is how much longer it waits then for what is under way.
	lastMoment = time.Second
)

// drop counts records that are lost, and logs a warning with the first and every 1000th.
func (e *rawOutputExporter[T]) drop(n int, reason dropReason, err error) {
	if n == 0 {
		return
	}
	total, report := e.telemetry.addDropped(n, reason)
	if report {
		e.logger.Warn("Raw-output records were dropped",
			zap.Int64("dropped_records", total), zap.String("reason", string(reason)), zap.Error(err))
	}
}

// health tells the Collector, and its log, of failures to write, and when they are over.
type health struct {
	mu     sync.Mutex
	failed bool
}

// report reports what came of an attempt, if it is another thing than before.
func (h *health) report(host component.Host, logger *zap.Logger, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil && !h.failed:
		componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
		logger.Warn("Raw-output records can't be written", zap.Error(err))
	case err == nil && h.failed:
		componentstatus.ReportStatus(host, componentstatus.NewEvent(componentstatus.StatusOK))
		logger.Info("Raw-output records are written again")
	}
	h.failed = err != nil
}
