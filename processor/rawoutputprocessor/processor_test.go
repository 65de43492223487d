package rawoutputprocessor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor/internal/metadata"
)

func TestVerifyShutdown(t *testing.T) {
	processortest.VerifyShutdown(t, NewFactory(), NewFactory().CreateDefaultConfig())
}

type contextKey struct{}

// What is not ours goes on at once, with the caller's context; newer generated lifecycle tests check the same.
func TestOthersPassUntouched(t *testing.T) {
	f := newFixture(t, nil)
	ctx := context.WithValue(t.Context(), contextKey{}, "caller's")
	sent := batch(other("a"), other("b"))
	want := plog.NewLogs()
	sent.CopyTo(want)
	require.NoError(t, f.ConsumeLogs(ctx, sent))
	require.Len(t, f.next.taken, 1)
	assert.Equal(t, want, f.next.taken[0])
	assert.Equal(t, "caller's", f.next.contexts[0].Value(contextKey{}))

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, f.ConsumeLogs(cancelled, batch(other("c"), chunkOf("1", "x"))))
	assert.ErrorIs(t, f.next.contexts[1].Err(), context.Canceled, "it is for the caller to end what is passed on")
	f.shutdown(t)
}

// A batch of both: the others first, without the chunks, then the records.
func TestMixedBatch(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "x"), other("a"), requestEnd("2", "gone"), other("b"))))
	assert.Equal(t, []string{"a", "b", contract.EventRecord}, f.next.names())
	f.shutdown(t)
}

func TestKeepChunks(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.KeepChunks = true })
	sent := batch(final("1", "x"), other("a"), requestEnd("2", "gone"), having(chunkOf("", "malformed"), func(pcommon.Map) {}))
	require.NoError(t, f.ConsumeLogs(t.Context(), sent))
	assert.Equal(t, []string{contract.EventChunk, "a", contract.EventRequestEnd, contract.EventChunk, contract.EventRecord}, f.next.names())
	assert.Equal(t, []string{"x"}, f.next.texts(t), "the next component spoiled what was passed on, not what is absorbed")
	f.shutdown(t)
}

// TestPackedRecords: a record says the same in both forms; which one it has is for the configuration to say.
func TestPackedRecords(t *testing.T) {
	var lines [2][]string
	for i, packed := range []bool{false, true} {
		f := newFixture(t, func(cfg *Config) { cfg.PackedRecords = packed })
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf("1", "on"), chunkOf("1", "ce"), final("1", "!"))))
		frames, _ := f.next.taken[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().Get(contract.Frames)
		assert.Equal(t, packed, frames.Type() == pcommon.ValueTypeStr)
		lines[i] = f.next.lines(t)
		f.shutdown(t)
	}
	assert.Len(t, lines[0], 1)
	assert.Equal(t, lines[0], lines[1])
}

// If the next component refuses the others, nothing is absorbed: the sender's retry does no harm.
func TestRefusedOthers(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep_chunks=%v", keep), func(t *testing.T) {
			f := newFixture(t, func(cfg *Config) { cfg.KeepChunks = keep })
			sent := batch(chunkOf("1", "once"), other("a"))
			f.next.setRefuse(func(plog.Logs) error { return errors.New("busy") })
			for range 3 {
				require.ErrorContains(t, f.ConsumeLogs(t.Context(), sent), "busy")
			}
			assert.Equal(t, 0, f.total(t, chunksMetric))
			f.next.setRefuse(nil)
			require.NoError(t, f.ConsumeLogs(t.Context(), sent))
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "!"))))
			assert.Equal(t, []string{"once!"}, f.next.texts(t))
			f.shutdown(t)
		})
	}
}

// If the next component refuses the others for good, the sender must not send the batch again: its chunks are absorbed.
func TestOthersRefusedForGood(t *testing.T) {
	f := newFixture(t, nil)
	f.next.setRefuse(func(plog.Logs) error { return consumererror.NewPermanent(errors.New("never")) })
	err := f.ConsumeLogs(t.Context(), batch(chunkOf("1", "once"), other("a")))
	require.True(t, consumererror.IsPermanent(err), err)
	f.next.setRefuse(nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "!"))))
	assert.Equal(t, []string{"once!"}, f.next.texts(t))
	f.shutdown(t)
}

// If it refuses a part of the others, the sender must not send only that again.
func TestOthersRefusedInPart(t *testing.T) {
	f := newFixture(t, nil)
	f.next.setRefuse(func(refused plog.Logs) error { return consumererror.NewLogs(errors.New("busy"), refused) })
	err := f.ConsumeLogs(t.Context(), batch(chunkOf("1", "a"), other("a")))
	require.ErrorContains(t, err, "busy")
	assert.False(t, errors.As(err, new(consumererror.Logs)))
	assert.Equal(t, 0, f.total(t, chunksMetric))
	f.shutdown(t)
}

func TestMalformedChunksAreCounted(t *testing.T) {
	const secret = "what the model said"
	f := newFixture(t, nil)
	bad := []event{
		chunkOf("", secret),
		having(chunkOf("1", secret), func(m pcommon.Map) { m.PutStr(contract.OutputIndex, secret) }),
		having(chunkOf("1", secret), func(m pcommon.Map) { m.PutInt(contract.OutputIndex, -1) }),
		having(chunkOf("1", secret), func(m pcommon.Map) { m.PutDouble(contract.RequestID, 1.5) }),
		having(chunkOf("1", secret), func(m pcommon.Map) { m.PutStr(contract.DisaggRequestID, strings.Repeat("x", 257)) }),
		having(requestEnd("1", secret), func(m pcommon.Map) { m.PutBool(contract.EndReason, true) }),
		having(chunkOf(strings.Repeat("y", 4<<20), secret), func(pcommon.Map) {}),
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(bad...)))
	assert.Equal(t, map[string]int{"malformed": len(bad)}, f.nonZero(t, chunksMetric))
	assert.Equal(t, 0, f.total(t, pendingMetric))
	assert.Equal(t, 1, f.logs.FilterMessage("Malformed chunks were dropped").Len())
	for _, entry := range f.logs.All() {
		assert.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), secret)
	}
	f.shutdown(t)
}

// Every series is there with 0 before anything happens.
func TestMetricsFromTheStart(t *testing.T) {
	f := newFixture(t, nil)
	for metric, want := range map[string]map[string]int{
		chunksMetric:       {"accepted": 0, "duplicate": 0, "late": 0, "conflicting": 0, "malformed": 0},
		recordsMetric:      {"finished": 0, "evicted": 0, "idle_timeout": 0, "shutdown": 0, "request_end": 0, "chunks_missing": 0},
		droppedMetric:      {"rejected": 0, "queue_full": 0, "shutdown": 0},
		emptyMetric:        {"": 0},
		inconsistentMetric: {"": 0},
		pendingMetric:      {"": 0},
		bytesMetric:        {"": 0},
	} {
		assert.Equal(t, want, metrictest.Values(t, f.telemetry, metric), metric)
	}
	f.shutdown(t)
}

func TestMetrics(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.MaxPending = 3 })
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(
		final("finished", "a"),
		having(chunkOf("ended", "b"), func(m pcommon.Map) {
			m.PutEmptySlice(contract.TextDiff).AppendEmpty().SetStr("b")
			second, _ := m.Get(contract.TextDiff)
			second.Slice().AppendEmpty().SetStr("c")
		}),
		requestEnd("ended", "gone"),
		chunkOf("empty", ""), requestEnd("empty", "gone"),
		having(final("inconsistent", "a"), func(m pcommon.Map) { m.PutStr(contract.Text, "other") }),
		chunkOf("evicted", "d"), chunkOf("2", "e"), chunkOf("3", "f"), chunkOf("4", "g"),
	)))
	assert.Equal(t, map[string]int{"accepted": 9}, f.nonZero(t, chunksMetric), "a record with two chunks counts twice")
	assert.Equal(t, map[string]int{"finished": 2, "request_end": 1, "evicted": 1}, f.nonZero(t, recordsMetric))
	assert.Equal(t, 1, f.total(t, emptyMetric))
	assert.Equal(t, 1, f.total(t, inconsistentMetric))
	assert.Equal(t, 3, f.total(t, pendingMetric))
	assert.Positive(t, f.total(t, bytesMetric))
	f.shutdown(t)
	assert.Equal(t, map[string]int{"finished": 2, "request_end": 1, "evicted": 1, "shutdown": 3}, f.nonZero(t, recordsMetric))
	assert.Equal(t, 0, f.total(t, pendingMetric))
	assert.Equal(t, 0, f.total(t, bytesMetric))
}

// The sender's cancellation does not lose a record whose chunks are absorbed.
func TestSenderThatIsGone(t *testing.T) {
	f := newFixture(t, nil)
	f.next.refuseIn(func(ctx context.Context) error { return ctx.Err() })
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "caller's"))
	cancel()
	require.NoError(t, f.ConsumeLogs(ctx, batch(final("1", "x"))))
	require.Len(t, f.next.contexts, 1, "it was not done when the record came")
	assert.Equal(t, "caller's", f.next.contexts[0].Value(contextKey{}))
	f.shutdown(t)
}

// What one sender's pressure evicts does not travel with that sender's context: it may be another's.
func TestEvictedWithoutTheSendersContext(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.MaxPending = 1 })
	ctx := context.WithValue(t.Context(), contextKey{}, "tenant b")
	require.NoError(t, f.ConsumeLogs(t.Context(), batchFrom("a", chunkOf("1", "a's"))))
	require.NoError(t, f.ConsumeLogs(ctx, batchFrom("b", chunkOf("1", "b's"))))
	require.NoError(t, f.ConsumeLogs(ctx, batchFrom("b", final("1", "."))))
	assert.Equal(t, []string{"a's", "b's."}, f.next.texts(t))
	assert.Nil(t, f.next.contexts[0].Value(contextKey{}))
	assert.Equal(t, "tenant b", f.next.contexts[1].Value(contextKey{}))
	f.shutdown(t)
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.IdleTimeout = time.Minute })
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf("1", "a"))))
		time.Sleep(40 * time.Second)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf("2", "b"))))
		time.Sleep(19 * time.Second)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf("1", "A"))))
		synctest.Wait()
		assert.Empty(t, f.next.texts(t))

		time.Sleep(41 * time.Second) // 60 s after the last chunk of 2
		synctest.Wait()
		require.Equal(t, []string{"b"}, f.next.texts(t))
		assert.Contains(t, f.next.lines(t)[0], `"finished_at":"2000-01-01T00:01:40+00:00"`, "by the Collector's clock")
		assert.Contains(t, f.next.lines(t)[0], `"partial":true,"end_reason":"idle_timeout"`)

		time.Sleep(19 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"b", "aA"}, f.next.texts(t))
		assert.Equal(t, map[string]int{"idle_timeout": 2}, f.nonZero(t, recordsMetric))
		f.shutdown(t)
	})
}

func TestNoIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.IdleTimeout = 0 })
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf("1", "a"))))
		time.Sleep(1000 * time.Hour)
		synctest.Wait()
		assert.Empty(t, f.next.texts(t))
		f.shutdown(t)
		assert.Equal(t, []string{"a"}, f.next.texts(t))
	})
}

// A chunk without any time has that of its receipt.
func TestTimeOfReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		untimed := func(r plog.LogRecord) {
			final("1", "a")(r)
			r.SetTimestamp(0)
		}
		observed := func(r plog.LogRecord) {
			untimed(r)
			r.SetObservedTimestamp(startOfStream)
		}
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(untimed, observed)))
		assert.Contains(t, f.next.lines(t)[0], `"started_at":"2000-01-01T00:00:00+00:00","finished_at":"2000-01-01T00:00:00+00:00"`)
		assert.Contains(t, f.next.lines(t)[1], `"finished_at":"2026-11-04T05:12:33.123456+00:00"`)
		f.shutdown(t)
	})
}

func TestNoSourceWarnsOnce(t *testing.T) {
	f := newFixture(t, nil)
	for range 3 {
		sent := batch(final("1", "a"))
		sent.ResourceLogs().At(0).Resource().Attributes().Clear()
		require.NoError(t, f.ConsumeLogs(t.Context(), sent))
	}
	assert.Equal(t, 1, f.logs.Len())
	f.shutdown(t)
}

// The record says where its first chunk came from, and what its chunks said beside the contract.
func TestRecordKeepsItsPlace(t *testing.T) {
	f := newFixture(t, nil)
	first := batch(having(chunkOf("1", "a"), func(m pcommon.Map) { m.PutStr("model", "m1"); m.PutStr("raw_output.frames", "not mine") }))
	resource := first.ResourceLogs().At(0)
	resource.SetSchemaUrl("resource schema")
	resource.Resource().Attributes().PutStr("deployment", "blue")
	resource.ScopeLogs().At(0).SetSchemaUrl("scope schema")
	resource.ScopeLogs().At(0).Scope().SetName("scope")
	resource.ScopeLogs().At(0).LogRecords().At(0).SetTraceID(pcommon.TraceID{1})
	resource.ScopeLogs().At(0).LogRecords().At(0).SetSpanID(pcommon.SpanID{2})
	require.NoError(t, f.ConsumeLogs(t.Context(), first))
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(
		having(final("1", "b"), func(m pcommon.Map) { m.PutStr("model", "m2"); m.PutInt("finish", 1) }))))

	require.Len(t, f.next.taken, 1)
	got := f.next.taken[0].ResourceLogs().At(0)
	assert.Equal(t, "resource schema", got.SchemaUrl())
	assert.Equal(t, map[string]any{"service.instance.id": "server", "deployment": "blue"}, got.Resource().Attributes().AsRaw())
	assert.Equal(t, "scope schema", got.ScopeLogs().At(0).SchemaUrl())
	assert.Equal(t, "scope", got.ScopeLogs().At(0).Scope().Name())
	record := got.ScopeLogs().At(0).LogRecords().At(0)
	assert.Equal(t, contract.EventRecord, record.EventName())
	assert.Equal(t, plog.SeverityNumberDebug, record.SeverityNumber())
	assert.Equal(t, "DEBUG", record.SeverityText())
	assert.Equal(t, pcommon.ValueTypeEmpty, record.Body().Type())
	assert.Equal(t, pcommon.TraceID{1}, record.TraceID())
	assert.Equal(t, pcommon.SpanID{2}, record.SpanID())
	assert.Equal(t, map[string]any{
		"model": "m2", "finish": int64(1),
		contract.RequestID: "1", contract.OutputIndex: int64(0), contract.StartedAt: "2026-11-04T05:12:33.123456+00:00",
		contract.Streaming: false, contract.Aborted: false, contract.Partial: false, contract.Text: "ab",
		contract.Frames: []any{"a", "b"}, contract.FramesConsistent: true, contract.TokenIDs: []any{}, contract.NumOutputTokens: int64(0),
		contract.Chunks: int64(2), contract.MissingChunks: int64(0), contract.DuplicateChunks: int64(0),
	}, record.Attributes().AsRaw())
	f.shutdown(t)
}

// The same for spans.
func TestSpans(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p, err := NewFactory().CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), NewFactory().CreateDefaultConfig(), sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	traces := ptrace.NewTraces()
	spans := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i, text := range []string{"a", "b"} {
		span := spans.AppendEmpty()
		span.SetName(contract.EventChunk)
		span.SetTraceID(pcommon.TraceID{1})
		span.SetSpanID(pcommon.SpanID{byte(10 + i)})
		span.SetParentSpanID(pcommon.SpanID{2})
		span.SetStartTimestamp(pcommon.Timestamp(startOfStream + i*1000))
		span.SetEndTimestamp(pcommon.Timestamp(startOfStream + i*1000))
		span.Attributes().PutInt(contract.RequestID, 7)
		span.Attributes().PutStr(contract.TextDiff, text)
		span.Attributes().PutBool(contract.IsFinal, text == "b")
	}
	spans.AppendEmpty().SetName("not ours")
	traces.MarkReadOnly()
	require.NoError(t, p.ConsumeTraces(t.Context(), traces))
	require.NoError(t, p.Shutdown(t.Context()))

	require.Len(t, sink.AllTraces(), 2)
	assert.Equal(t, "not ours", sink.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name())
	record := sink.AllTraces()[1].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	assert.Equal(t, contract.EventRecord, record.Name())
	assert.Equal(t, pcommon.TraceID{1}, record.TraceID())
	assert.Equal(t, pcommon.SpanID{2}, record.ParentSpanID())
	assert.False(t, record.SpanID().IsEmpty())
	assert.NotContains(t, []pcommon.SpanID{{10}, {11}}, record.SpanID(), "an id of its own")
	assert.Equal(t, pcommon.Timestamp(startOfStream), record.StartTimestamp())
	assert.Equal(t, pcommon.Timestamp(startOfStream+1000), record.EndTimestamp())
	text, _ := record.Attributes().Get(contract.Text)
	assert.Equal(t, "ab", text.Str())
}

func TestShutdownWithoutStart(t *testing.T) {
	f := create(t, nil)
	f.shutdown(t)
	f.shutdown(t)
}

func TestShutdown(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf("1", "a"), chunkOf("2", "b"), chunkOf("1", "A"), chunkOf("3", ""))))
	f.shutdown(t)
	assert.Equal(t, []string{"b", "aA"}, f.next.texts(t), "the least recently updated first; the empty one is not written")
	assert.Equal(t, 1, f.total(t, emptyMetric))
	f.shutdown(t)
	assert.ErrorIs(t, f.ConsumeLogs(t.Context(), batch(chunkOf("1", "a"))), errStopped)
	assert.Len(t, f.next.texts(t), 2)
}

// A context that is done already loses nothing where the next component takes records whatever the context says.
func TestShutdownWithADoneContext(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf("1", "a"))))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, f.Shutdown(done))
	assert.Equal(t, []string{"a"}, f.next.texts(t))
}

// A great many outputs in one batch, of which few may be in flight: every one is written, and little is kept.
func TestManyOutputs(t *testing.T) {
	const outputs = 100_000
	f := newFixture(t, func(cfg *Config) { cfg.MaxPending = 100 })
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "s")
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	records.EnsureCapacity(outputs)
	for i := range outputs {
		record := records.AppendEmpty()
		chunkOf("r", "x")(record)
		record.Attributes().PutInt(contract.OutputIndex, int64(i))
	}
	written, largest := 0, 0
	f.next.setRefuse(func(batch plog.Logs) error {
		written += batch.LogRecordCount()
		largest = max(largest, batch.LogRecordCount())
		return nil
	})
	require.NoError(t, f.ConsumeLogs(t.Context(), logs))
	assert.Equal(t, 100, f.total(t, pendingMetric))
	assert.Equal(t, outputs-100, written)
	assert.Less(t, largest, outputs/5, "in parcels")
	f.shutdown(t)
	assert.Equal(t, outputs, written)
}
