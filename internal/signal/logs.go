package signal

import (
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/heapsize"
)

// Logs is the Signal of log records.
type Logs struct{}

var _ Signal[plog.Logs] = Logs{}

// Count implements Signal.
func (Logs) Count(batch plog.Logs) int { return batch.LogRecordCount() }

// Names implements Signal.
func (Logs) Names(batch plog.Logs, f func(string)) {
	for _, resource := range batch.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				f(nameOf(record.EventName(), record.Attributes()))
			}
		}
	}
}

// Walk implements Signal.
func (Logs) Walk(batch plog.Logs, v Visitor) {
	for _, resource := range batch.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			if scope.LogRecords().Len() == 0 {
				continue
			}
			v.Enter(Scope{resource.Resource(), resource.SchemaUrl(), scope.Scope(), scope.SchemaUrl()})
			for _, record := range scope.LogRecords().All() {
				v.Visit(logEvent(record))
			}
		}
	}
}

func logEvent(record plog.LogRecord) Event {
	at := record.Timestamp()
	if at == 0 {
		at = record.ObservedTimestamp()
	}
	return Event{
		Name:       nameOf(record.EventName(), record.Attributes()),
		Attributes: record.Attributes(),
		Time:       uint64(at),
		Trace:      Trace{TraceID: record.TraceID(), SpanID: record.SpanID(), Flags: uint32(record.Flags())},
	}
}

// Without implements Signal.
func (Logs) Without(batch plog.Logs, dropped func(string) bool) plog.Logs {
	rest := Logs{}.Copy(batch)
	rest.ResourceLogs().RemoveIf(func(resource plog.ResourceLogs) bool {
		resource.ScopeLogs().RemoveIf(func(scope plog.ScopeLogs) bool {
			scope.LogRecords().RemoveIf(func(e plog.LogRecord) bool { return dropped(nameOf(e.EventName(), e.Attributes())) })
			return scope.LogRecords().Len() == 0
		})
		return resource.ScopeLogs().Len() == 0
	})
	return rest
}

// Copy implements Signal.
func (Logs) Copy(batch plog.Logs) plog.Logs {
	c := plog.NewLogs()
	batch.CopyTo(c)
	return c
}

// NewBatch implements Signal.
func (Logs) NewBatch() Batch[plog.Logs] { return &logBatch{logs: plog.NewLogs()} }

type logBatch struct {
	logs    plog.Logs
	scope   *Scope
	records plog.LogRecordSlice
}

func (b *logBatch) Append(scope *Scope, trace Trace, _, finishedAt uint64) pcommon.Map {
	if b.scope != scope {
		b.open(scope)
	}
	record := b.records.AppendEmpty()
	record.SetEventName(contract.EventRecord)
	record.SetTimestamp(pcommon.Timestamp(finishedAt))
	record.SetSeverityNumber(plog.SeverityNumberDebug)
	record.SetSeverityText("DEBUG")
	record.SetTraceID(trace.TraceID)
	record.SetSpanID(trace.SpanID)
	record.SetFlags(plog.LogRecordFlags(trace.Flags))
	return record.Attributes()
}

func (b *logBatch) open(scope *Scope) {
	resource := b.logs.ResourceLogs().AppendEmpty()
	scope.Resource.CopyTo(resource.Resource())
	resource.SetSchemaUrl(scope.ResourceSchema)
	scopeLogs := resource.ScopeLogs().AppendEmpty()
	scope.Scope.CopyTo(scopeLogs.Scope())
	scopeLogs.SetSchemaUrl(scope.ScopeSchema)
	b.scope, b.records = scope, scopeLogs.LogRecords()
}

func (b *logBatch) Batch() plog.Logs { return b.logs }

// Refused implements Signal.
func (Logs) Refused(err error) (refused plog.Logs, ok bool) {
	partial, ok := unjoined[consumererror.Logs](err)
	if !ok {
		return refused, false
	}
	return partial.Data(), true
}

// Size implements Signal.
func (Logs) Size(batch plog.Logs) int64 {
	s := sizer{perEvent: heapsize.LogRecord}
	Logs{}.Walk(batch, &s)
	return s.size
}
