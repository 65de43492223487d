package signal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

func onlySpan(batch ptrace.Traces) ptrace.Span {
	return batch.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
}

func TestSpanEvent(t *testing.T) {
	batch := traces.build(resource("r", scope("s", "a")))
	span := onlySpan(batch)
	span.SetStartTimestamp(1)
	span.SetEndTimestamp(latest)
	span.SetTraceID(pcommon.TraceID{1})
	span.SetSpanID(pcommon.SpanID{9})
	span.SetParentSpanID(pcommon.SpanID{2})
	span.SetFlags(0x301)
	span.TraceState().FromRaw("k=v")
	span.Attributes().PutStr("k", "v")
	e := onlyEvent(t, traces, batch)
	assert.Equal(t, uint64(1), e.Start)
	assert.Equal(t, uint64(latest), e.Time, "its end stands for the record's time")
	assert.Equal(t, map[string]any{"k": "v"}, e.Attributes.AsRaw())
	assert.Equal(t, Trace{TraceID: pcommon.TraceID{1}, SpanID: pcommon.SpanID{2}, Flags: 0x301, State: "k=v"}, e.Trace,
		"its parent is its place, not itself")
}

func TestSpanOfABatch(t *testing.T) {
	from := scopesOf(traces, traces.build(resource("r", scope("s", "x"))))[0]
	trace := Trace{TraceID: pcommon.TraceID{1}, SpanID: pcommon.SpanID{2}, Flags: 0x301, State: "k=v"}
	b := traces.NewBatch()
	b.Append(&from, trace, 5, latest).PutStr("k", "v")

	span := onlySpan(b.Batch())
	assert.Equal(t, contract.EventRecord, span.Name())
	assert.Equal(t, pcommon.Timestamp(5), span.StartTimestamp())
	assert.Equal(t, pcommon.Timestamp(latest), span.EndTimestamp())
	assert.Equal(t, ptrace.SpanKindInternal, span.Kind())
	assert.Equal(t, ptrace.StatusCodeUnset, span.Status().Code())
	assert.Equal(t, trace.TraceID, span.TraceID())
	assert.Equal(t, trace.SpanID, span.ParentSpanID(), "the chunks' parent")
	assert.False(t, span.SpanID().IsEmpty(), "a new one")
	assert.Equal(t, trace.Flags, span.Flags())
	assert.Equal(t, trace.State, span.TraceState().AsRaw())
	assert.Equal(t, map[string]any{"k": "v"}, span.Attributes().AsRaw())
}

func TestNewSpanIDs(t *testing.T) {
	const number = 1000
	seen := map[pcommon.SpanID]bool{}
	for range number {
		id := newSpanID()
		assert.False(t, id.IsEmpty())
		seen[id] = true
	}
	assert.Len(t, seen, number)
}
