package rawoutputprocessor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// outbox delivers parcels, and keeps what the next component refuses until it takes it, within a bound and in order. A
// parcel is counted as dropped by who holds it: the call that sends it, or the loop that tries again.
type outbox[T any] struct {
	signal  signal.Signal[T]
	next    signal.Consume[T]
	hasRoom func(bytes int64) bool // reports whether so much may wait
	resized func(bytes int64)
	dropped func(records int, reason dropReason, err error)
	wake    chan struct{} // has an element when something began to wait

	mu      sync.Mutex // guards what follows
	waiting []*parcel[T]
	retried *parcel[T] // the first that waits, while it is tried again
	bytes   int64      // of both
	closed  bool
}

func newOutbox[T any](
	sig signal.Signal[T], next signal.Consume[T],
	hasRoom func(int64) bool, resized func(int64), dropped func(int, dropReason, error),
) *outbox[T] {
	return &outbox[T]{
		signal: sig, next: next, hasRoom: hasRoom, resized: resized, dropped: dropped, wake: make(chan struct{}, 1),
	}
}

// size returns how many bytes of refused records are kept.
func (o *outbox[T]) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// send delivers a parcel, or lets it wait: behind others that wait already, or because the next component refuses it.
func (o *outbox[T]) send(ctx context.Context, p *parcel[T]) {
	if o.hasWaiting() {
		o.wait(p, errBehind)
		return
	}
	if left, err := o.attempt(ctx, p); err != nil {
		o.wait(left, err)
	}
}

var errBehind = errors.New("earlier records wait for the next component to take them")

func (o *outbox[T]) hasWaiting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.retried != nil || len(o.waiting) > 0
}

// attempt delivers a parcel, or returns what is left of it and why. What the next component refuses for good is dropped.
func (o *outbox[T]) attempt(ctx context.Context, p *parcel[T]) (*parcel[T], error) {
	err := o.next(ctx, p.batch(o.signal))
	if err == nil {
		return nil, nil
	}
	left := p.left(o.signal, err)
	switch {
	case left.count == 0: // refused in part, of which nothing is left
		return nil, nil
	case signal.IsPermanent(err):
		o.dropped(left.count, rejected, err)
		return nil, nil
	}
	return left, err
}

// wait keeps a parcel for later, or drops it where there is no room or no later.
func (o *outbox[T]) wait(p *parcel[T], err error) {
	p.settle()
	if reason, ok := o.keep(p); !ok {
		o.dropped(p.count, reason, err)
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox[T]) keep(p *parcel[T]) (dropReason, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return atShutdown, false
	case !o.hasRoom(o.bytes + p.bytes):
		return queueFull, false
	}
	o.waiting = append(o.waiting, p)
	o.resize(p.bytes)
	return "", true
}

func (o *outbox[T]) resize(delta int64) {
	o.bytes += delta
	o.resized(delta)
}

// take returns the first parcel that waits, with as many more as make one parcel together, to be tried again; or nil. Until
// put back or done, later ones go on waiting behind it.
func (o *outbox[T]) take() *parcel[T] {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return nil
	}
	p, n := o.waiting[0], 1
	for n < len(o.waiting) && p.merge(o.waiting[n]) {
		n++
	}
	clear(o.waiting[:n])
	o.waiting = o.waiting[n:]
	o.retried = p
	return p
}

// putBack makes what is left of the parcel that was taken the first that waits again, or reports that nothing waits any more.
// Nothing left means that it was delivered.
func (o *outbox[T]) putBack(left *parcel[T]) (ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resize(-o.retried.bytes)
	o.retried = nil
	if left == nil {
		return true
	}
	if o.closed {
		return false
	}
	o.waiting = append([]*parcel[T]{left}, o.waiting...)
	o.resize(left.bytes)
	return true
}

// Waiting between attempts, which go on until the next component takes what waits or the processor is shut down.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// errRefused says that a parcel waits on. What the next component said does not reach the retries: it might be an error that
// means something to them.
var errRefused = errors.New("refused")

// retryUntil delivers what waits, in order, until the context is done. An attempt that is under way then goes on until
// the other context is.
func (o *outbox[T]) retryUntil(ctx, attempts context.Context) {
	delays := &backoff.ExponentialBackOff{
		InitialInterval: firstRetry, MaxInterval: lastRetry,
		Multiplier: backoff.DefaultMultiplier, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	retry := func() (struct{}, error) {
		if o.retryFirst(attempts) != nil {
			return struct{}{}, errRefused
		}
		return struct{}{}, nil
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		for o.hasWaiting() && ctx.Err() == nil {
			_, _ = backoff.Retry(ctx, retry, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(0))
		}
	}
}

// retryFirst tries the first parcel that waits again, if there is one. After an error it is still the first.
func (o *outbox[T]) retryFirst(ctx context.Context) error {
	p := o.take()
	if p == nil {
		return nil
	}
	left, err := o.attempt(ctx, p)
	if !o.putBack(left) {
		o.dropped(left.count, atShutdown, err)
	}
	return err
}

// close tries everything that waits once more, while the context lasts, and drops what is still refused. Nothing waits
// afterwards; what is being tried meanwhile is its holder's.
func (o *outbox[T]) close(ctx context.Context) {
	for o.hasTakeable() && ctx.Err() == nil {
		p := o.take()
		left, err := o.attempt(ctx, p)
		o.putBack(nil)
		if err != nil {
			o.dropped(left.count, atShutdown, err)
		}
	}
	for _, p := range o.abandon() {
		o.dropped(p.count, atShutdown, context.Cause(ctx))
	}
}

// hasTakeable reports whether a parcel waits while none is being tried.
func (o *outbox[T]) hasTakeable() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.retried == nil && len(o.waiting) > 0
}

// abandon lets nothing wait any more, and returns what did.
func (o *outbox[T]) abandon() []*parcel[T] {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := o.waiting
	o.waiting, o.closed = nil, true
	for _, p := range waiting {
		o.resize(-p.bytes)
	}
	return waiting
}
