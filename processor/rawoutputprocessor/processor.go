package rawoutputprocessor

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otel-rawoutput/rawoutput/internal/assembly"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/gate"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
	"github.com/otel-rawoutput/rawoutput/internal/tally"
)

// errStopped is what a sender gets after Shutdown: nothing was absorbed.
var errStopped = errors.New("the raw_output processor was shut down")

// rawOutputProcessor is the processor for one signal; T is the type of a batch.
type rawOutputProcessor[T any] struct {
	cfg       *Config
	signal    signal.Signal[T]
	next      signal.Consume[T]
	logger    *zap.Logger
	telemetry *telemetry
	absorbers sync.Pool // of *absorber[T]
	malformed tally.Tally
	unsourced sync.Once
	outbox    *outbox[T]

	mu       sync.Mutex // guards what follows
	table    *assembly.Table
	reported pending
	stopped  bool         // nothing stays in the table any more
	inFlight atomic.Int64 // the table's bytes, for those without the lock

	gate        gate.Gate
	stop        context.CancelCauseFunc // ends the loops; nil before Start
	loops       sync.WaitGroup
	attempts    context.Context // of the loops' deliveries
	endAttempts context.CancelCauseFunc

	shutdownOnce sync.Once
	shutdownErr  error
}

func newProcessor[T any](cfg *Config, set processor.Settings, sig signal.Signal[T], next signal.Consume[T]) (*rawOutputProcessor[T], error) {
	telemetry, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &rawOutputProcessor[T]{
		cfg:       cfg,
		signal:    sig,
		next:      next,
		logger:    set.Logger,
		telemetry: telemetry,
		table: assembly.NewTable(assembly.Options{
			Outputs: cfg.MaxPending, Bytes: cfg.MaxPendingBytes, OutputBytes: cfg.MaxOutputBytes,
			Remembered: cfg.EndedCacheSize, FrameTimes: cfg.FrameTimes,
		}),
	}
	p.absorbers.New = func() any { return &absorber[T]{processor: p} }
	p.outbox = newOutbox(sig, next, p.mayWait, telemetry.addRefusedBytes, p.recordsDropped)
	p.attempts, p.endAttempts = context.WithCancelCause(context.Background())
	return p, nil
}

// mayWait reports whether so many bytes of refused records may be kept: beside the outputs in flight, as evicting one that
// must wait then frees nothing, and in half of the memory at the most, as a next component that is away for long must not
// leave outputs without any.
func (p *rawOutputProcessor[T]) mayWait(bytes int64) bool {
	return bytes <= p.cfg.MaxPendingBytes/2 && bytes+p.inFlight.Load() <= p.cfg.MaxPendingBytes
}

// Capabilities implements processor.Logs and processor.Traces. Batches are copied where they are changed, so that a sender
// that sends the same one again, after an error, sends the same.
func (*rawOutputProcessor[T]) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: false}
}

// Start implements component.Component.
func (p *rawOutputProcessor[T]) Start(context.Context, component.Host) error {
	ctx, stop := context.WithCancelCause(context.Background())
	p.stop = stop
	p.loops.Go(func() { p.outbox.retryUntil(ctx, p.attempts) })
	p.loops.Go(func() { p.expireUntil(ctx) })
	return nil
}

// consume passes on what is not ours and absorbs what is. An error means that nothing was absorbed; a permanent one, that the
// chunks were, since the sender is not to send them again.
func (p *rawOutputProcessor[T]) consume(ctx context.Context, batch T) error {
	if !p.gate.Enter() {
		return errStopped
	}
	defer p.gate.Leave()

	ours := 0
	p.signal.Names(batch, func(name string) {
		if isOurs(name) {
			ours++
		}
	})
	if ours == 0 {
		return p.next(ctx, batch)
	}
	err := p.passOn(ctx, batch, ours)
	if err != nil && !signal.IsPermanent(err) {
		return signal.WithoutPart(err) // the sender must send all of it again: nothing was absorbed
	}
	p.absorb(ctx, batch)
	return err
}

// isOurs reports whether the processor takes events of that name.
func isOurs(name string) bool {
	return name == contract.EventChunk || name == contract.EventRequestEnd
}

// passOn passes on a copy of what is not absorbed: the next component may change what it gets, or keep it.
func (p *rawOutputProcessor[T]) passOn(ctx context.Context, batch T, ours int) error {
	switch {
	case p.cfg.KeepChunks:
		return p.next(ctx, p.signal.Copy(batch))
	case ours < p.signal.Count(batch):
		return p.next(ctx, p.signal.Without(batch, isOurs))
	default:
		return nil
	}
}

// expireUntil ends what waited for too long, until the context is done: outputs for any chunk, outputs whose final chunk came
// and request ends for the missing ones. Who waits longest is the next to expire, and nobody who begins to wait later expires
// before a whole timeout has passed: one timer is enough.
func (p *rawOutputProcessor[T]) expireUntil(ctx context.Context) {
	timer := time.NewTimer(p.timeToExpire(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-timer.C:
			p.expire(p.attempts, now)
			timer.Reset(p.timeToExpire(now))
		}
	}
}

// expire ends what has waited for too long.
func (p *rawOutputProcessor[T]) expire(ctx context.Context, now time.Time) {
	p.deliver(ctx, p.update(func(t *assembly.Table) {
		t.GiveUpWaiting(now.Add(-p.cfg.GapTimeout))
		if p.cfg.IdleTimeout > 0 {
			t.Expire(now.Add(-p.cfg.IdleTimeout), uint64(now.UnixNano()))
		}
	}))
}

// timeToExpire returns how long it takes until the next may have waited for too long.
func (p *rawOutputProcessor[T]) timeToExpire(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := now.Add(p.cfg.GapTimeout)
	if since, ok := p.table.LongestWait(); ok {
		next = since.Add(p.cfg.GapTimeout)
	}
	if p.cfg.IdleTimeout > 0 {
		idle := now.Add(p.cfg.IdleTimeout)
		if since, ok := p.table.LeastRecent(); ok {
			idle = since.Add(p.cfg.IdleTimeout)
		}
		if idle.Before(next) {
			next = idle
		}
	}
	return max(next.Sub(now), 0)
}

// update changes the table inside the lock, and returns the outputs that ended, to be delivered outside it.
func (p *rawOutputProcessor[T]) update(change func(*assembly.Table)) []assembly.Ended {
	p.mu.Lock()
	p.table.Hold(p.outbox.size())
	change(p.table)
	if p.stopped {
		p.table.Flush(math.MaxInt, uint64(time.Now().UnixNano()))
	}
	p.inFlight.Store(p.table.Bytes())
	ended, tally := p.table.TakeEnded()
	delta := p.reported.moveTo(pending{outputs: int64(p.table.Len()), bytes: p.table.Bytes()})
	p.mu.Unlock()

	p.telemetry.addPending(delta)
	p.telemetry.addTally(tally)
	return ended
}

// makeRoom evicts outputs where what the next component refused is too much beside them.
func (p *rawOutputProcessor[T]) makeRoom(ctx context.Context) {
	now := uint64(time.Now().UnixNano())
	for {
		ended := p.update(func(t *assembly.Table) { t.MakeRoom(now) })
		if len(ended) == 0 {
			return
		}
		p.deliver(ctx, ended)
	}
}

// flushedAtOnce is how many outputs Shutdown ends under one lock.
const flushedAtOnce = 4096

// Shutdown implements component.Component: it writes what is in flight. It may come before Start, and again.
func (p *rawOutputProcessor[T]) Shutdown(ctx context.Context) error {
	p.shutdownOnce.Do(func() { p.shutdownErr = p.shutdown(ctx) })
	return p.shutdownErr
}

func (p *rawOutputProcessor[T]) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownPatience)
	defer cancel()
	if p.stop != nil {
		p.stop(errStopped)
	}
	inside, cancelInside := context.WithTimeout(ctx, shutdownPatience/2)
	defer cancelInside()
	defer context.AfterFunc(inside, func() { p.endAttempts(errStopped) })()
	errInside := p.gate.Close(inside)
	errLoops := gate.WaitFor(inside, lastMoment, func() error {
		p.loops.Wait()
		return nil
	})
	errFlush := gate.WaitFor(ctx, lastMoment, func() error {
		p.flush(ctx)
		p.outbox.close(ctx)
		return nil
	})
	return errors.Join(errInside, errLoops, errFlush)
}

const (
	// shutdownPatience is how long Shutdown waits for next components, all in all: less than orchestrators wait before they
	// kill. Half of it is for what is under way. Most give up at once, and not each after a time of its own, when their
	// context ends.
	shutdownPatience = 15 * time.Second
	// lastMoment is how much longer it waits then, for the loops to end and for the last records to be taken: most next
	// components take them at once whatever the context says, and none is lost. It ends the wait for one that does not heed
	// its context.
	lastMoment = time.Second
)

// flush ends all outputs in flight, some at a time: their records are larger than they are. Nothing stays in the table
// afterwards, whoever is still inside because Shutdown had no time to wait.
func (p *rawOutputProcessor[T]) flush(ctx context.Context) {
	now := uint64(time.Now().UnixNano())
	for more := true; more; {
		p.deliver(ctx, p.update(func(t *assembly.Table) {
			more = t.Flush(flushedAtOnce, now)
			p.stopped = !more
		}))
	}
}

// recordsDropped counts records that are lost, and logs a warning with the first and every 1000th.
func (p *rawOutputProcessor[T]) recordsDropped(n int, reason dropReason, err error) {
	total, report := p.telemetry.addDropped(n, reason)
	if report {
		p.logger.Warn("Raw-output records were dropped: the next component did not take them",
			zap.Int64("dropped_records", total), zap.String("reason", string(reason)), zap.Error(err))
	}
}
