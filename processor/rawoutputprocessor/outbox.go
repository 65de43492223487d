package rawoutputprocessor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/collector/consumer/consumererror"

	"github.com/otel-rawoutput/rawoutput/internal/assembly"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// A parcel is delivered as one batch. It holds at most this many records, and few beyond this many bytes, so that the
// records of a great many outputs that end at once are not all built at once.
const (
	parcelRecords = 512
	parcelBytes   = 4 << 20
)

// parcel is a number of ended outputs on their way. The batch is built for each attempt: the next component may change
// what it gets, and what is kept in between is small.
type parcel[T any] struct {
	ended   []assembly.Ended
	records []record.Record // of ended, one each; none while it waits
	// rest is what a next component left of the batch that it took a part of; ended is then empty.
	rest    T
	hasRest bool
	count   int   // records in it
	bytes   int64 // what it takes while it waits
}

// deliver counts the outputs that ended and sends their records on, in order.
func (p *rawOutputProcessor[T]) deliver(ctx context.Context, ended []assembly.Ended) {
	p.telemetry.addEnded(ended)
	for len(ended) > 0 {
		n := parcelLen(ended)
		var parcelCtx context.Context = withoutValues{ctx}
		if ended[0].OfSender {
			parcelCtx = ctx
		}
		p.outbox.send(parcelCtx, p.pack(ended[:n:n]))
		ended = ended[n:]
	}
}

// parcelLen returns how many of the first outputs make up a parcel.
func parcelLen(ended []assembly.Ended) (n int) {
	bytes := int64(0)
	for n < len(ended) && n < parcelRecords && bytes < parcelBytes && ended[n].OfSender == ended[0].OfSender {
		bytes += ended[n].Size()
		n++
	}
	return n
}

// withoutValues is a context that has nothing of another but its end: what the pressure of one sender, or the clock, ended
// must not travel with that sender's credentials.
type withoutValues struct{ context.Context }

func (withoutValues) Value(any) any { return nil }

// pack makes a parcel of outputs, and counts those whose frames do not add up.
func (p *rawOutputProcessor[T]) pack(ended []assembly.Ended) *parcel[T] {
	parcel := &parcel[T]{ended: ended, records: recordsOf(ended), count: len(ended)}
	inconsistent := 0
	for i := range parcel.records {
		if !parcel.records[i].FramesConsistent {
			inconsistent++
		}
	}
	p.telemetry.addInconsistent(inconsistent)
	return parcel
}

func recordsOf(ended []assembly.Ended) []record.Record {
	records := make([]record.Record, len(ended))
	for i := range ended {
		records[i] = ended[i].Record()
	}
	return records
}

// batch builds what is sent.
func (p *parcel[T]) batch(sig signal.Signal[T]) T {
	if p.hasRest {
		return sig.Without(p.rest, func(string) bool { return false })
	}
	records := p.records
	if records == nil {
		records = recordsOf(p.ended)
	}
	b := sig.NewBatch()
	for i := range p.ended {
		e, r := &p.ended[i], &records[i]
		attributes := b.Append(e.Scope(), e.Trace(), r.StartedAt, r.FinishedAt)
		e.PutOthers(attributes)
		r.Put(attributes)
	}
	return b.Batch()
}

// settle makes the parcel small, and finds out how small, to wait.
func (p *parcel[T]) settle() {
	if p.hasRest {
		return
	}
	p.records, p.bytes = nil, 0
	for i := range p.ended {
		e := &p.ended[i]
		p.bytes += e.Size()
		if i == 0 || e.Scope() != p.ended[i-1].Scope() {
			p.bytes += e.ScopeSize()
		}
	}
}

// left returns what is left to deliver once the next component refused that part of the parcel.
func (p *parcel[T]) left(sig signal.Signal[T], refused T) *parcel[T] {
	if n := sig.Count(refused); n < p.count {
		return &parcel[T]{rest: refused, hasRest: true, count: n, bytes: sig.Size(refused)}
	}
	return p
}

// outbox delivers parcels, and keeps what the next component refuses until it takes it, within a bound and in order.
type outbox[T any] struct {
	signal  signal.Signal[T]
	next    signal.Consume[T]
	limit   int64 // of bytes
	resized func(bytes int64)
	dropped func(records int, reason dropReason, err error)
	wake    chan struct{} // has an element when something began to wait

	mu      sync.Mutex // guards what follows
	waiting []*parcel[T]
	bytes   int64
	closed  bool
}

func newOutbox[T any](
	sig signal.Signal[T], next signal.Consume[T], limit int64, resized func(int64), dropped func(int, dropReason, error),
) *outbox[T] {
	return &outbox[T]{
		signal: sig, next: next, limit: limit, resized: resized, dropped: dropped, wake: make(chan struct{}, 1),
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
	if o.first() != nil {
		o.wait(p, errBehind)
		return
	}
	if left, err := o.attempt(ctx, p); err != nil {
		o.wait(left, err)
	}
}

var errBehind = errors.New("earlier records wait for the next component to take them")

// attempt delivers a parcel, or returns what is left of it and why. What the next component refuses for good is dropped.
func (o *outbox[T]) attempt(ctx context.Context, p *parcel[T]) (*parcel[T], error) {
	batch := p.batch(o.signal)
	err := o.next(ctx, batch)
	if err == nil {
		return nil, nil
	}
	left := p.left(o.signal, o.signal.Refused(batch, err))
	if consumererror.IsPermanent(err) {
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
	case o.bytes+p.bytes > o.limit:
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

// first returns the parcel that waits longest, or nil.
func (o *outbox[T]) first() *parcel[T] {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return nil
	}
	return o.waiting[0]
}

// replaceFirst makes the first parcel another, or takes it out where there is none.
func (o *outbox[T]) replaceFirst(left *parcel[T]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 { // abandoned meanwhile
		return
	}
	o.resize(-o.waiting[0].bytes)
	if left != nil {
		o.waiting[0] = left
		o.resize(left.bytes)
		return
	}
	o.waiting[0] = nil
	o.waiting = o.waiting[1:]
}

// Waiting between attempts, which go on until the next component takes what waits or the processor is shut down.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// retryUntil delivers what waits, in order, until the context is done. A parcel stays first until it is delivered, so that
// later ones go on waiting behind it.
func (o *outbox[T]) retryUntil(ctx context.Context) {
	delays := &backoff.ExponentialBackOff{
		InitialInterval: firstRetry, MaxInterval: lastRetry,
		Multiplier: backoff.DefaultMultiplier, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	attempt := func() (struct{}, error) {
		left, err := o.attempt(ctx, o.first())
		o.replaceFirst(left)
		return struct{}{}, err
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		for o.first() != nil && ctx.Err() == nil {
			_, _ = backoff.Retry(ctx, attempt, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(0))
		}
	}
}

// close tries everything that waits once more and drops what is still refused. Nothing waits afterwards. retryUntil must
// have returned.
func (o *outbox[T]) close(ctx context.Context) {
	for _, p := range o.abandon() {
		if left, err := o.attempt(ctx, p); err != nil {
			o.dropped(left.count, atShutdown, err)
		}
	}
}

// abandon lets nothing wait any more, and returns what did.
func (o *outbox[T]) abandon() []*parcel[T] {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := o.waiting
	o.waiting, o.closed = nil, true
	o.resize(-o.bytes)
	return waiting
}
