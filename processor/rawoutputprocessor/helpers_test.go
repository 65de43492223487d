package rawoutputprocessor

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor/internal/metadatatest"
)

// The self metrics.
const (
	chunksMetric       = "otelcol_processor_raw_output_chunks"
	recordsMetric      = "otelcol_processor_raw_output_records"
	emptyMetric        = "otelcol_processor_raw_output_empty_outputs"
	inconsistentMetric = "otelcol_processor_raw_output_inconsistent_records"
	pendingMetric      = "otelcol_processor_raw_output_pending_outputs"
	bytesMetric        = "otelcol_processor_raw_output_pending_bytes"
	droppedMetric      = "otelcol_processor_raw_output_dropped_records"
)

// next is a next component that a test can make refuse. It copies what it takes, and spoils what it was given, as a
// component that changes data may.
type next struct {
	mu       sync.Mutex
	refuse   func(context.Context, plog.Logs) error // nil takes everything
	taken    []plog.Logs
	contexts []context.Context
	attempts int
}

func (n *next) consume(ctx context.Context, batch plog.Logs) error {
	if err := n.offer(ctx, batch); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := plog.NewLogs()
	batch.CopyTo(taken)
	n.taken, n.contexts = append(n.taken, taken), append(n.contexts, ctx)
	spoil(batch)
	return nil
}

func (n *next) offer(ctx context.Context, batch plog.Logs) error {
	n.mu.Lock()
	n.attempts++
	refuse := n.refuse
	n.mu.Unlock()
	if refuse == nil {
		return nil
	}
	return refuse(ctx, batch)
}

func spoil(batch plog.Logs) {
	batch.ResourceLogs().RemoveIf(func(plog.ResourceLogs) bool { return true })
}

func (n *next) setRefuse(refuse func(plog.Logs) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = nil
	if refuse != nil {
		n.refuse = func(_ context.Context, batch plog.Logs) error { return refuse(batch) }
	}
}

// refuseIn is setRefuse for what looks at the context.
func (n *next) refuseIn(refuse func(context.Context) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = nil
	if refuse != nil {
		n.refuse = func(ctx context.Context, _ plog.Logs) error { return refuse(ctx) }
	}
}

// count returns how many batches were offered.
func (n *next) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attempts
}

// lines returns the lines of the records that were taken, in order.
func (n *next) lines(t *testing.T) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := &lineVisitor{t: t}
	for _, batch := range n.taken {
		signal.Logs{}.Walk(batch, v)
	}
	return v.lines
}

// texts returns the texts of the records that were taken, in order.
func (n *next) texts(t *testing.T) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := &lineVisitor{t: t}
	for _, batch := range n.taken {
		signal.Logs{}.Walk(batch, v)
	}
	return v.texts
}

// names returns the event names of all that was taken, in order.
func (n *next) names() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, batch := range n.taken {
		signal.Logs{}.Names(batch, func(name string) { names = append(names, name) })
	}
	return names
}

type lineVisitor struct {
	t            *testing.T
	reader       record.Reader
	lines, texts []string
}

func (*lineVisitor) Enter(signal.Scope) {}

func (v *lineVisitor) Visit(e signal.Event) {
	if e.Name != contract.EventRecord {
		return
	}
	r, err := v.reader.Read(e.Attributes, e.Time, e.Time)
	require.NoError(v.t, err)
	v.lines = append(v.lines, string(new(record.Encoder).AppendLine(nil, r)))
	v.texts = append(v.texts, r.Text)
}

// fixture is a started processor for logs.
type fixture struct {
	processor.Logs
	next      *next
	telemetry *componenttest.Telemetry
	logs      *observer.ObservedLogs
}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := create(t, change)
	require.NoError(t, f.Start(t.Context(), componenttest.NewNopHost()))
	return f
}

// create makes a processor that is not started.
func create(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	f := &fixture{next: &next{}, telemetry: componenttest.NewTelemetry()}
	t.Cleanup(func() { assert.NoError(t, f.telemetry.Shutdown(context.Background())) })
	core, logs := observer.New(zapcore.DebugLevel)
	f.logs = logs
	set := metadatatest.NewSettings(f.telemetry)
	set.Logger = zap.New(core)
	p, err := newProcessor[plog.Logs](cfg, set, signal.Logs{}, f.next.consume)
	require.NoError(t, err)
	f.Logs = logsProcessor{p}
	return f
}

func (f *fixture) shutdown(t *testing.T) {
	t.Helper()
	require.NoError(t, f.Shutdown(context.Background()))
}

func (f *fixture) total(t *testing.T, metric string) int {
	t.Helper()
	return metrictest.Total(t, f.telemetry, metric)
}

func (f *fixture) nonZero(t *testing.T, metric string) map[string]int {
	t.Helper()
	return metrictest.NonZero(t, f.telemetry, metric)
}

// event adds an event to a batch.
type event func(plog.LogRecord)

// startOfStream is the time of the first chunk in tests, in nanoseconds since 1970.
const startOfStream = 1793769153123456000

// batch builds a batch of one server's events.
func batch(events ...event) plog.Logs { return batchFrom("server", events...) }

func batchFrom(instance string, events ...event) plog.Logs {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.instance.id", instance)
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	for _, add := range events {
		record := records.AppendEmpty()
		record.SetTimestamp(startOfStream)
		add(record)
	}
	return logs
}

// chunkOf is a chunk of output 0 of a request.
func chunkOf(request, text string) event {
	return func(r plog.LogRecord) {
		r.SetEventName(contract.EventChunk)
		r.Attributes().PutStr(contract.RequestID, request)
		r.Attributes().PutStr(contract.TextDiff, text)
	}
}

// final is the final chunk of output 0 of a request.
func final(request, text string) event {
	return func(r plog.LogRecord) {
		chunkOf(request, text)(r)
		r.Attributes().PutBool(contract.IsFinal, true)
	}
}

func requestEnd(request, reason string) event {
	return func(r plog.LogRecord) {
		r.SetEventName(contract.EventRequestEnd)
		r.Attributes().PutStr(contract.RequestID, request)
		r.Attributes().PutStr(contract.EndReason, reason)
	}
}

// other is an event that is not ours.
func other(name string) event {
	return func(r plog.LogRecord) {
		r.SetEventName(name)
		r.Body().SetStr("body of " + name)
	}
}

// having is an event with further attributes.
func having(e event, change func(pcommon.Map)) event {
	return func(r plog.LogRecord) {
		e(r)
		change(r.Attributes())
	}
}
