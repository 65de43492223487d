package rawoutputprocessor

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/otel-rawoutput/rawoutput/internal/assembly"
	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// stepsAtOnce is how many decoded events are added under one lock: enough to make locking cheap, few enough to keep the
// lock and the scratch memory short in a batch of a million.
const stepsAtOnce = 256

// absorber takes one batch apart and adds it to the table. It is used again for the next one.
type absorber[T any] struct {
	processor *rawOutputProcessor[T]
	now       time.Time
	scope     signal.Scope
	from      *assembly.From // of scope; nil until it has an event of ours
	decoder   chunk.Decoder
	steps     []step
	outcomes  outcomes
	ended     []assembly.Ended // by the batch, to be delivered
}

// step is one decoded event: a chunk, or a request end.
type step struct {
	from  *assembly.From
	trace signal.Trace
	chunk chunk.Chunk
	end   chunk.End
	isEnd bool
}

// deliveryPatience is how long the delivery of the records that a batch ended keeps its sender waiting; what is not taken by
// then waits to be sent again. It is shorter than senders usually wait before they send a batch again, whose chunks are
// absorbed already.
const deliveryPatience = 5 * time.Second

// absorb adds the chunks and request ends of a batch to the outputs in flight, and delivers the records of those that end.
// Delivery does not end with the sender's own context: its chunks are absorbed.
func (p *rawOutputProcessor[T]) absorb(ctx context.Context, batch T) {
	a := p.absorbers.Get().(*absorber[T])
	a.now = time.Now()
	p.signal.Walk(batch, a)
	a.apply()
	ended := a.ended
	a.from, a.scope, a.ended = nil, signal.Scope{}, nil
	p.absorbers.Put(a)

	if len(ended) == 0 && p.outbox.size() == 0 {
		return // nothing to deliver, and nothing refused that might be too much beside the outputs in flight
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryPatience)
	defer cancel()
	p.deliver(ctx, ended)
	p.makeRoom(ctx)
}

// Enter implements signal.Visitor.
func (a *absorber[T]) Enter(scope signal.Scope) { a.scope, a.from = scope, nil }

// Visit implements signal.Visitor.
func (a *absorber[T]) Visit(e signal.Event) {
	if !isOurs(e.Name) {
		return
	}
	if e.Time == 0 {
		e.Time = uint64(a.now.UnixNano())
	}
	s := step{trace: e.Trace, isEnd: e.Name == contract.EventRequestEnd}
	var err error
	if s.isEnd {
		s.end, err = a.decoder.End(e.Attributes, e.Time)
	} else {
		s.chunk, err = a.decoder.Chunk(e.Attributes, chunk.Times{First: e.Start, Last: e.Time})
	}
	if err != nil {
		a.processor.recordMalformed(err)
		return
	}
	s.from = a.origin()
	a.steps = append(a.steps, s)
	if len(a.steps) == stepsAtOnce {
		a.apply()
	}
}

func (a *absorber[T]) origin() *assembly.From {
	if a.from == nil {
		a.from = &assembly.From{Source: assembly.SourceOf(a.scope.Resource.Attributes()), Scope: a.scope}
		if a.from.Source == (assembly.Source{}) {
			a.processor.warnUnsourced()
		}
	}
	return a.from
}

// apply adds the decoded events to the table, in order.
func (a *absorber[T]) apply() {
	ended := a.processor.update(func(t *assembly.Table) {
		for i := range a.steps {
			if s := &a.steps[i]; s.isEnd {
				t.EndRequest(s.from.Source, &s.end, a.now)
			} else {
				a.outcomes[t.Add(s.from, s.trace, &s.chunk, a.now)] += len(s.chunk.Frames)
			}
		}
	})
	a.processor.telemetry.addOutcomes(a.outcomes)
	a.ended = append(a.ended, ended...)
	clear(a.steps)
	a.steps, a.outcomes = a.steps[:0], outcomes{}
	a.decoder.Reset()
}

func (p *rawOutputProcessor[T]) recordMalformed(err error) {
	p.telemetry.addMalformed()
	if total, report := p.malformed.Add(1); report {
		p.logger.Warn("Malformed chunks were dropped", zap.Int64("malformed", total), zap.Error(err))
	}
}

// warnUnsourced says once that chunks tell nothing of their source.
func (p *rawOutputProcessor[T]) warnUnsourced() {
	p.unsourced.Do(func() {
		p.logger.Warn("Chunks come without any resource attribute that tells their source; all of them count as one source, " +
			"and two servers that use the same request ids would be mixed: set service.instance.id")
	})
}
