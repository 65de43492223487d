package rawoutputprocessor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
)

const (
	missingMetric        = "otelcol_processor_raw_output_missing_chunks"
	emitterDroppedMetric = "otelcol_processor_raw_output_emitter_dropped_chunks"
)

// numbered is a chunk with its index, that many microseconds after the start of the stream.
func numbered(index int64, e event) event {
	return func(r plog.LogRecord) {
		e(r)
		r.SetTimestamp(startOfStream + pcommon.Timestamp(1000*index))
		r.Attributes().PutInt(contract.ChunkIndex, index)
	}
}

// counting is a request end that tells how many chunks each output had, at the end of the stream.
func counting(e event, counts ...int64) event {
	return func(r plog.LogRecord) {
		e(r)
		r.SetTimestamp(startOfStream + 1_000_000)
		array := r.Attributes().PutEmptySlice(contract.ChunkCounts)
		for _, n := range counts {
			array.AppendEmpty().SetInt(n)
		}
	}
}

// Chunks come in disorder and twice; each is counted as what became of it.
func TestDisorder(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(
		numbered(3, final("1", "d")), numbered(1, chunkOf("1", "b")), numbered(1, chunkOf("1", "b")), // comes twice
		numbered(1, having(chunkOf("1", ""), func(m pcommon.Map) {
			m.PutEmptyBytes(contract.FrameLengths).FromRaw(make([]byte, 8)) // two chunks, where there was one
		})),
	)))
	assert.Empty(t, f.next.texts(t))
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(numbered(2, chunkOf("1", "c")), numbered(0, chunkOf("1", "a")))))
	assert.Equal(t, []string{"abcd"}, f.next.texts(t))
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(numbered(2, chunkOf("1", "c")))))

	assert.Equal(t, map[string]int{"accepted": 4, "duplicate": 1, "conflicting": 2, "late": 1}, f.nonZero(t, chunksMetric))
	assert.Equal(t, 0, f.total(t, pendingMetric), "a late copy begins nothing")
	f.shutdown(t)
	assert.Equal(t, []string{"abcd"}, f.next.texts(t))
}

func TestGapTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.GapTimeout = 20 * time.Second })
		time.Sleep(7 * time.Second) // the timer is not set for it
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(numbered(0, chunkOf("1", "a")), numbered(3, final("1", "d")))))
		time.Sleep(20*time.Second - 1)
		synctest.Wait()
		assert.Empty(t, f.next.texts(t))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"ad"}, f.next.texts(t))
		assert.Contains(t, f.next.lines(t)[0], `"finished_at":"2026-11-04T05:12:33.123459+00:00"`, "the time of the final chunk")
		assert.Contains(t, f.next.lines(t)[0], `"partial":true,"end_reason":"chunks_missing"`)
		assert.Contains(t, f.next.lines(t)[0], `"frames_consistent":false`)
		assert.Equal(t, map[string]int{"chunks_missing": 1}, f.nonZero(t, recordsMetric))
		assert.Equal(t, 2, f.total(t, missingMetric))
		assert.Equal(t, 1, f.total(t, inconsistentMetric))
		f.shutdown(t)
	})
}

// A request end overtakes its chunks. It waits for them, with the clock as for a gap.
func TestRequestEndThatOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.GapTimeout = 20 * time.Second })
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(counting(requestEnd("1", "gone"), 2), counting(requestEnd("2", "gone"), 2))))
		assert.Positive(t, f.total(t, bytesMetric), "ends that wait are held")
		time.Sleep(19 * time.Second)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(
			numbered(0, chunkOf("1", "a")), numbered(0, chunkOf("2", "a")), numbered(1, chunkOf("1", "b")))))
		assert.Equal(t, []string{"ab"}, f.next.texts(t))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"ab", "a"}, f.next.texts(t))
		assert.Contains(t, f.next.lines(t)[0], `"end_reason":"gone","text":"ab","frames":["a","b"],"frames_consistent":true`)
		assert.Contains(t, f.next.lines(t)[1], `"end_reason":"gone","text":"a","frames":["a"],"frames_consistent":false`)
		assert.Equal(t, 1, f.total(t, missingMetric))
		assert.Equal(t, 0, f.total(t, bytesMetric))
		f.shutdown(t)
	})
}

// Shutdown ends what waits as the server said.
func TestShutdownWhileWaiting(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(
		numbered(0, chunkOf("1", "a")), numbered(2, final("1", "c")),
		numbered(0, chunkOf("2", "a")), counting(requestEnd("2", "gone"), 2),
		counting(requestEnd("3", "gone"), 2),
		chunkOf("4", "a"),
	)))
	f.shutdown(t)
	assert.Equal(t, map[string]int{"chunks_missing": 1, "request_end": 1, "shutdown": 1}, f.nonZero(t, recordsMetric))
	assert.Equal(t, 0, f.total(t, bytesMetric))
}

func TestEmitterDropped(t *testing.T) {
	f := newFixture(t, nil)
	saying := func(dropped int64) event {
		return having(chunkOf("1", "a"), func(m pcommon.Map) { m.PutInt(contract.EmitterDropped, dropped) })
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(saying(0), saying(5), saying(3), saying(7))))
	require.NoError(t, f.ConsumeLogs(t.Context(), batchFrom("another", saying(2))))
	assert.Equal(t, 7+2, f.total(t, emitterDroppedMetric), "the highest of each source")
	f.shutdown(t)
}

func TestDeliveryOnTheRecord(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.FrameTimes = true })
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(
		numbered(1, chunkOf("1", "b")), numbered(0, chunkOf("1", "a")), numbered(1, chunkOf("1", "b")), numbered(5, final("1", "f")),
		numbered(4, chunkOf("1", "")),
	)))
	f.shutdown(t)
	require.Len(t, f.next.taken, 1)
	attributes := f.next.taken[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().AsRaw()
	assert.Equal(t, int64(4), attributes[contract.Chunks])
	assert.Equal(t, int64(2), attributes[contract.MissingChunks])
	assert.Equal(t, int64(1), attributes[contract.DuplicateChunks])
	assert.Equal(t, []byte{0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0}, attributes[contract.FrameTimes])
}

// What is not asked for is not kept.
func TestNoFrameTimes(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"))))
	_, ok := f.next.taken[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().Get(contract.FrameTimes)
	assert.False(t, ok)
	f.shutdown(t)
}

// Made-up request ends push out no more than made-up chunks would, and are held within the same bounds.
func TestRequestEndsAreBounded(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.MaxPending, cfg.MaxPendingBytes = 100, 10_000 })
	for i := range 50 {
		var ends []event
		for range 20 {
			ends = append(ends, counting(requestEnd(strings.Repeat("r", 1+len(ends)), "gone"), 1, 2, 3))
		}
		require.NoError(t, f.ConsumeLogs(t.Context(), batchFrom(fmt.Sprint(i), ends...)))
		require.LessOrEqual(t, f.total(t, bytesMetric), 10_000)
	}
	f.shutdown(t)
	assert.Equal(t, 0, f.total(t, bytesMetric))
	assert.Empty(t, metrictest.NonZero(t, f.telemetry, recordsMetric))
}

// However many senders send a numbered stream, in whatever order and some of it twice, the records are those of the stream in
// order.
func TestManySenders(t *testing.T) {
	const outputs, chunksEach, senders = 50, 20, 8
	var inOrder []event
	for i := range outputs {
		for index := range int64(chunksEach) {
			text := fmt.Sprintf("%d.%d ", i, index)
			if index == chunksEach-1 {
				inOrder = append(inOrder, numbered(index, final(fmt.Sprint(i), text)))
			} else {
				inOrder = append(inOrder, numbered(index, chunkOf(fmt.Sprint(i), text)))
			}
		}
	}
	ordered := newFixture(t, nil)
	require.NoError(t, ordered.ConsumeLogs(t.Context(), batch(inOrder...)))
	ordered.shutdown(t)

	random := rand.New(rand.NewPCG(1, 2))
	sent := append(slices.Clone(inOrder), inOrder[:len(inOrder)/3]...) // some twice
	random.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
	f := newFixture(t, nil)
	var wg sync.WaitGroup
	for events := range slices.Chunk(sent, len(sent)/senders+1) {
		wg.Go(func() {
			for some := range slices.Chunk(events, 7) {
				assert.NoError(t, f.ConsumeLogs(t.Context(), batch(some...)))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, outputs*chunksEach, f.nonZero(t, chunksMetric)["accepted"])
	assert.Equal(t, len(sent), f.total(t, chunksMetric))
	assert.Equal(t, 0, f.total(t, pendingMetric))
	f.shutdown(t)
	assert.ElementsMatch(t, ordered.next.lines(t), f.next.lines(t))
}
