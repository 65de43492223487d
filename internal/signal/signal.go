// Package signal is what log records and spans have in common for the contract (docs/contract.md): a name, attributes,
// times and a place in a trace, inside a resource and a scope. With it everything else is written once, for both signals.
package signal // import "github.com/otel-rawoutput/rawoutput/internal/signal"

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/heapsize"
)

// Event is a log record or a span. It refers to the data that it was taken from, and is good until that is released.
type Event struct {
	Name       string // the event name, or what stands for it; a span's name
	Attributes pcommon.Map
	Start      uint64 // a span's start in nanoseconds since 1970; 0 for a log record
	Time       uint64 // the record's time in nanoseconds since 1970; 0 where it has none
	Trace      Trace
}

// Trace is an event's place in a trace.
type Trace struct {
	TraceID pcommon.TraceID
	SpanID  pcommon.SpanID // the span that a log record was made in; a span's parent
	Flags   uint32
	State   string // of spans only
}

// Scope is the resource and the instrumentation scope of events.
type Scope struct {
	Resource       pcommon.Resource
	ResourceSchema string
	Scope          pcommon.InstrumentationScope
	ScopeSchema    string
}

// Clone returns a copy that does not refer to the data that s was taken from.
func (s Scope) Clone() Scope {
	c := Scope{pcommon.NewResource(), s.ResourceSchema, pcommon.NewInstrumentationScope(), s.ScopeSchema}
	s.Resource.CopyTo(c.Resource)
	s.Scope.CopyTo(c.Scope)
	return c
}

// Equal reports whether both are the same but for the order of their attributes.
func (s Scope) Equal(other Scope) bool {
	return s.ResourceSchema == other.ResourceSchema && s.ScopeSchema == other.ScopeSchema &&
		s.Scope.Name() == other.Scope.Name() && s.Scope.Version() == other.Scope.Version() &&
		s.Resource.Attributes().Equal(other.Resource.Attributes()) && s.Scope.Attributes().Equal(other.Scope.Attributes())
}

// Size is the memory that a Clone of s takes, in bytes.
func (s Scope) Size() int64 {
	return int64(len(s.ResourceSchema)+len(s.ScopeSchema)+len(s.Scope.Name())+len(s.Scope.Version())) +
		heapsize.Map(s.Resource.Attributes()) + heapsize.Map(s.Scope.Attributes())
}

// Visitor is shown the events of a batch in order: each scope that has any, and then its events.
type Visitor interface {
	Enter(Scope)
	Visit(Event)
}

// Signal is what differs between logs (Logs) and traces (Traces). T is the type of a batch.
type Signal[T any] interface {
	// Count returns how many events a batch has.
	Count(T) int
	// Names calls f with the name of every event.
	Names(batch T, f func(name string))
	// Walk shows the batch to a visitor.
	Walk(T, Visitor)
	// Without returns a copy of the batch that lacks the events whose name is dropped, and the scopes that had no others.
	Without(batch T, dropped func(name string) bool) T
	// Copy returns a copy of the batch.
	Copy(T) T
	// NewBatch starts a batch of records.
	NewBatch() Batch[T]
	// Refused returns the part of the batch that the next component refused with err, and reports whether err tells.
	Refused(err error) (T, bool)
	// Size is the memory that a batch takes, in bytes.
	Size(T) int64
}

// Batch collects records in order.
type Batch[T any] interface {
	// Append adds a record (contract.EventRecord) and returns its attributes, to be filled. Records that follow each
	// other with the same scope, by identity, share it in the batch too.
	Append(scope *Scope, trace Trace, startedAt, finishedAt uint64) pcommon.Map
	// Batch returns what was collected.
	Batch() T
}

// Consume passes a batch on.
type Consume[T any] func(context.Context, T) error

// nameOf applies the rule that an attribute stands for the event name where that is not set.
func nameOf(name string, attributes pcommon.Map) string {
	if name != "" {
		return name
	}
	if v, ok := attributes.Get(contract.AttributeEventName); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}
