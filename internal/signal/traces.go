package signal

import (
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/heapsize"
)

// Traces is the Signal of spans.
type Traces struct{}

var _ Signal[ptrace.Traces] = Traces{}

// Count implements Signal.
func (Traces) Count(batch ptrace.Traces) int { return batch.SpanCount() }

// Names implements Signal.
func (Traces) Names(batch ptrace.Traces, f func(string)) {
	for _, resource := range batch.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				f(nameOf(span.Name(), span.Attributes()))
			}
		}
	}
}

// Walk implements Signal.
func (Traces) Walk(batch ptrace.Traces, v Visitor) {
	for _, resource := range batch.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			if scope.Spans().Len() == 0 {
				continue
			}
			v.Enter(Scope{resource.Resource(), resource.SchemaUrl(), scope.Scope(), scope.SchemaUrl()})
			for _, span := range scope.Spans().All() {
				v.Visit(spanEvent(span))
			}
		}
	}
}

func spanEvent(span ptrace.Span) Event {
	return Event{
		Name:       nameOf(span.Name(), span.Attributes()),
		Attributes: span.Attributes(),
		Start:      uint64(span.StartTimestamp()),
		Time:       uint64(span.EndTimestamp()),
		Trace: Trace{
			TraceID: span.TraceID(), SpanID: span.ParentSpanID(), Flags: span.Flags(), State: span.TraceState().AsRaw(),
		},
	}
}

// Without implements Signal.
func (Traces) Without(batch ptrace.Traces, dropped func(string) bool) ptrace.Traces {
	rest := Traces{}.Copy(batch)
	rest.ResourceSpans().RemoveIf(func(resource ptrace.ResourceSpans) bool {
		resource.ScopeSpans().RemoveIf(func(scope ptrace.ScopeSpans) bool {
			scope.Spans().RemoveIf(func(e ptrace.Span) bool { return dropped(nameOf(e.Name(), e.Attributes())) })
			return scope.Spans().Len() == 0
		})
		return resource.ScopeSpans().Len() == 0
	})
	return rest
}

// Copy implements Signal.
func (Traces) Copy(batch ptrace.Traces) ptrace.Traces {
	c := ptrace.NewTraces()
	batch.CopyTo(c)
	return c
}

// NewBatch implements Signal.
func (Traces) NewBatch() Batch[ptrace.Traces] { return &spanBatch{traces: ptrace.NewTraces()} }

type spanBatch struct {
	traces ptrace.Traces
	scope  *Scope
	spans  ptrace.SpanSlice
}

func (b *spanBatch) Append(scope *Scope, trace Trace, startedAt, finishedAt uint64) pcommon.Map {
	if b.scope != scope {
		b.open(scope)
	}
	span := b.spans.AppendEmpty()
	span.SetName(contract.EventRecord)
	span.SetStartTimestamp(pcommon.Timestamp(startedAt))
	span.SetEndTimestamp(pcommon.Timestamp(finishedAt))
	span.SetKind(ptrace.SpanKindInternal)
	span.SetTraceID(trace.TraceID)
	span.SetSpanID(newSpanID())
	span.SetParentSpanID(trace.SpanID)
	span.SetFlags(trace.Flags)
	span.TraceState().FromRaw(trace.State)
	return span.Attributes()
}

func (b *spanBatch) open(scope *Scope) {
	resource := b.traces.ResourceSpans().AppendEmpty()
	scope.Resource.CopyTo(resource.Resource())
	resource.SetSchemaUrl(scope.ResourceSchema)
	scopeSpans := resource.ScopeSpans().AppendEmpty()
	scope.Scope.CopyTo(scopeSpans.Scope())
	scopeSpans.SetSchemaUrl(scope.ScopeSchema)
	b.scope, b.spans = scope, scopeSpans.Spans()
}

func (b *spanBatch) Batch() ptrace.Traces { return b.traces }

// newSpanID returns a random id. All zeros would mean that there is none.
func newSpanID() (id pcommon.SpanID) {
	for id.IsEmpty() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// Refused implements Signal.
func (Traces) Refused(err error) (refused ptrace.Traces, ok bool) {
	partial, ok := unjoined[consumererror.Traces](err)
	if !ok {
		return refused, false
	}
	return partial.Data(), true
}

// Size implements Signal.
func (Traces) Size(batch ptrace.Traces) int64 {
	s := sizer{perEvent: heapsize.Span}
	Traces{}.Walk(batch, &s)
	return s.size
}
