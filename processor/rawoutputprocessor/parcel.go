package rawoutputprocessor

import (
	"context"

	"github.com/otel-rawoutput/rawoutput/internal/assembly"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// parcelBytes is how much the records of a parcel take in OTLP, but for the output that makes it more: those of a great many
// outputs that end at once are not all built at once, and a batch of them is not larger than OTLP receivers take (4 MiB).
const parcelBytes = 2 << 20

// parcel is a number of ended outputs on their way. The batch is built for each attempt: the next component may change
// what it gets, and what is kept in between is small.
type parcel[T any] struct {
	ended []assembly.Ended
	form  record.Form
	// rest is what a next component left of the batch that it took a part of; ended is then empty.
	rest    T
	hasRest bool
	count   int   // records in it
	bytes   int64 // what it takes while it waits
	built   int64 // what its records take in OTLP
}

// deliver counts the outputs that ended and sends their records on, in order.
func (p *rawOutputProcessor[T]) deliver(ctx context.Context, ended []assembly.Ended) {
	p.telemetry.addEnded(ended)
	for len(ended) > 0 {
		n, built := parcelOf(ended)
		p.outbox.send(contextOf(ctx, ended[:n]), p.pack(ended[:n:n], built))
		ended = ended[n:]
	}
}

// parcelOf returns how many of the first outputs make up a parcel, and what their records take in OTLP.
func parcelOf(ended []assembly.Ended) (n int, built int64) {
	for ; n < len(ended) && built < parcelBytes; n++ {
		built += ended[n].RecordSize()
	}
	return n, built
}

// contextOf returns the context that outputs travel with: the sender's, unless the pressure of it, or the clock, ended
// another's among them, which must not travel with the sender's credentials.
func contextOf(sender context.Context, ended []assembly.Ended) context.Context {
	for i := range ended {
		if !ended[i].OfSender {
			return withoutValues{sender}
		}
	}
	return sender
}

// withoutValues is a context that has nothing of another but its end.
type withoutValues struct{ context.Context }

func (withoutValues) Value(any) any { return nil }

// pack makes a parcel of outputs, and counts those whose frames do not add up.
func (p *rawOutputProcessor[T]) pack(ended []assembly.Ended, built int64) *parcel[T] {
	inconsistent := 0
	for i := range ended {
		if !ended[i].FramesConsistent() {
			inconsistent++
		}
	}
	p.telemetry.addInconsistent(inconsistent)
	return &parcel[T]{ended: ended, form: p.cfg.form(), count: len(ended), built: built}
}

// batch builds what is sent.
func (p *parcel[T]) batch(sig signal.Signal[T]) T {
	if p.hasRest {
		return sig.Copy(p.rest)
	}
	b := sig.NewBatch()
	var r record.Record
	for i := range p.ended {
		e := &p.ended[i]
		e.Fill(&r)
		attributes := b.Append(e.Scope(), e.Trace(), r.StartedAt, r.FinishedAt)
		e.PutOthers(attributes)
		r.Put(attributes, p.form)
	}
	return b.Batch()
}

// left returns what is left to deliver of the parcel after the next component refused it with err.
func (p *parcel[T]) left(sig signal.Signal[T], err error) *parcel[T] {
	refused, ok := sig.Refused(err)
	if !ok {
		return p
	}
	if n := sig.Count(refused); n < p.count {
		return &parcel[T]{rest: refused, hasRest: true, count: n, bytes: sig.Size(refused)}
	}
	return p
}

// settle makes the parcel small, and finds out how small, to wait.
func (p *parcel[T]) settle() {
	if p.hasRest {
		return
	}
	p.bytes = 0
	for i := range p.ended {
		e := &p.ended[i]
		p.bytes += e.Size()
		if i == 0 || e.Scope() != p.ended[i-1].Scope() {
			p.bytes += e.ScopeSize()
		}
	}
}

// merge adds another parcel that waits behind this one, if both are small and of outputs.
func (p *parcel[T]) merge(next *parcel[T]) bool {
	if p.hasRest || next.hasRest || p.built+next.built > parcelBytes {
		return false
	}
	p.ended = append(p.ended, next.ended...)
	p.count += next.count
	p.bytes += next.bytes
	p.built += next.built
	return true
}
