package rawoutputprocessor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/multierr"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

var errBusy = errors.New("busy")

func refuseAll(plog.Logs) error { return errBusy }

// A next component that refuses for a while gets every record once, in order, and the senders see no error.
func TestRefusedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.next.setRefuse(refuseAll)
		var want []string
		for i := range 20 {
			text := fmt.Sprint(i)
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf(text, text), final(text, "!"))))
			want = append(want, text+"!")
			time.Sleep(time.Second)
		}
		assert.Empty(t, f.next.texts(t))
		assert.Positive(t, f.total(t, bytesMetric), "what waits is counted")
		assert.Less(t, f.next.count(), 20, "while the first waits the others are not offered, and less often as time goes on")

		f.next.setRefuse(nil)
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		assert.Equal(t, want, f.next.texts(t))
		assert.Equal(t, 0, f.total(t, bytesMetric))
		assert.Equal(t, 0, f.total(t, droppedMetric))
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("last", "last"))))
		assert.Equal(t, append(want, "last"), f.next.texts(t), "at once again")
		f.shutdown(t)
	})
}

// What is refused for good is lost, counted and logged; it holds up nothing.
func TestRefusedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.next.setRefuse(func(plog.Logs) error { return consumererror.NewPermanent(errBusy) })
		for i := range 3 {
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(final(fmt.Sprint(i), "secret"))))
		}
		f.next.setRefuse(nil)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("4", "taken"))))
		f.shutdown(t)
		assert.Equal(t, []string{"taken"}, f.next.texts(t))
		assert.Equal(t, map[string]int{"rejected": 3}, f.nonZero(t, droppedMetric))
		require.Equal(t, 1, f.logs.Len(), "one line with the first")
		assert.NotContains(t, fmt.Sprint(f.logs.All()[0].ContextMap()), "secret")
	})
}

// A next component that took a part says which it did not take: only that is sent again.
func TestRefusedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		var took []string
		f.next.setRefuse(func(offered plog.Logs) error {
			if offered.LogRecordCount() == 1 {
				return nil
			}
			rest := plog.NewLogs()
			offered.CopyTo(rest)
			records := rest.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
			took = append(took, fmt.Sprint(records.At(0).Attributes().AsRaw()["raw_output.text"]))
			first := true
			records.RemoveIf(func(plog.LogRecord) bool { defer func() { first = false }(); return first })
			return consumererror.NewLogs(errBusy, rest)
		})
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"), final("2", "b"), final("3", "c"))))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, took)
		assert.Equal(t, []string{"c"}, f.next.texts(t))
		assert.Equal(t, 0, f.total(t, bytesMetric))
		f.shutdown(t)
		assert.Equal(t, 0, f.total(t, droppedMetric))
	})
}

// What one of two components behind a fan-out says of its part is not true of the other: both get all of it again.
func TestRefusedInPartByOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		first := true
		f.next.setRefuse(func(offered plog.Logs) error {
			if !first {
				return nil
			}
			first = false
			rest := plog.NewLogs()
			offered.CopyTo(rest)
			rest.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().RemoveIf(func(plog.LogRecord) bool { return rest.LogRecordCount() > 1 })
			return multierr.Append(consumererror.NewLogs(errBusy, rest), consumererror.NewPermanent(errBusy))
		})
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"), final("2", "b"))))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, f.next.texts(t))
		assert.Equal(t, 0, f.total(t, droppedMetric))
		f.shutdown(t)
	})
}

// What waits is sent together, so that a next component that takes its time catches up.
func TestWaitingIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.next.setRefuse(refuseAll)
		const outputs = 1000
		for i := range outputs {
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(final(fmt.Sprint(i), "x"))))
		}
		f.next.setRefuse(nil)
		before := f.next.count()
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		assert.Len(t, f.next.texts(t), outputs)
		assert.LessOrEqual(t, f.next.count()-before, 2)
		f.shutdown(t)
	})
}

// One batch waits once for the next component, not once for each output that it ends, whoever ended it.
func TestOneBatchOneDelivery(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.MaxPending = 1 })
	var events []event
	for i := range 500 {
		events = append(events, chunkOf(fmt.Sprint("evicted", i), "e"), final(fmt.Sprint("finished", i), "f"))
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(events...)))
	assert.Equal(t, 1, f.next.count())
	assert.Len(t, f.next.texts(t), 999)
	f.shutdown(t)
}

// What OTLP receivers take by default is enough for each batch, whatever makes records larger than outputs in flight.
func TestBatchesAreNotTooLarge(t *testing.T) {
	const outputs, chunks, most = 200, 20_000, 4 << 20
	for name, add := range map[string]func(pcommon.Map, pcommon.Slice){
		"small token ids": func(attributes pcommon.Map, _ pcommon.Slice) {
			attributes.PutEmptyBytes(contract.TokenIDsDiff).FromRaw(make([]byte, 4*chunks))
		},
		"small frames": func(_ pcommon.Map, frames pcommon.Slice) {
			for range chunks {
				frames.AppendEmpty().SetStr("x")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			var events []event
			for i := range outputs {
				events = append(events, func(r plog.LogRecord) {
					final(fmt.Sprint(i), "")(r)
					add(r.Attributes(), r.Attributes().PutEmptySlice(contract.TextDiff))
				})
			}
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(events...)))
			records := 0
			for _, taken := range f.next.taken {
				assert.LessOrEqual(t, new(plog.ProtoMarshaler).LogsSize(taken), most)
				records += taken.LogRecordCount()
			}
			assert.Equal(t, outputs, records)
			f.shutdown(t)
		})
	}
}

// Reasons count into the memory that waits, too.
func TestLongReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.MaxPendingBytes = 1 << 20 })
		f.next.setRefuse(refuseAll)
		for i := range 20 {
			id := fmt.Sprint(i)
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf(id, "x"), requestEnd(id, strings.Repeat("r", 200_000)))))
			assert.LessOrEqual(t, f.total(t, bytesMetric), 1<<20)
		}
		assert.Equal(t, map[string]int{"queue_full": 18}, f.nonZero(t, droppedMetric))
		f.shutdown(t)
	})
}

// Shutdown does not wait for each of many records that are refused slowly.
func TestShutdownIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.MaxPendingBytes = 1 << 30 })
		slowly := func(plog.Logs) error { time.Sleep(4 * time.Second); return errBusy }
		f.next.setRefuse(slowly)
		var open []event
		for i := range 50 { // as many parcels, each of which is large
			open = append(open, chunkOf(fmt.Sprint(i), strings.Repeat("x", parcelBytes)))
		}
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(open...)))
		began := time.Now()
		_ = f.Shutdown(t.Context())
		assert.LessOrEqual(t, time.Since(began), shutdownPatience+2*lastMoment)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, map[string]int{"shutdown": 50}, f.nonZero(t, droppedMetric))
		assert.Equal(t, 0, f.total(t, bytesMetric)+f.total(t, pendingMetric))
	})
}

// A next component that takes its time does not keep a sender longer than senders have patience for: what it does not take
// by then waits.
func TestSenderIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.next.refuseIn(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"))))
		assert.Equal(t, deliveryPatience, time.Since(began))
		assert.Positive(t, f.total(t, bytesMetric))
		f.next.refuseIn(nil)
		f.shutdown(t)
		assert.Equal(t, []string{"a"}, f.next.texts(t))
	})
}

// An attempt that is under way at Shutdown ends by itself: broken off, it would be made twice.
func TestAttemptAcrossShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.next.setRefuse(refuseAll)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"))))
		synctest.Wait() // it was tried again at once
		f.next.refuseIn(func(ctx context.Context) error {
			select {
			case <-time.After(3 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		time.Sleep(time.Second)
		f.shutdown(t)
		assert.Equal(t, []string{"a"}, f.next.texts(t))
		assert.Equal(t, 3, f.next.count())
		assert.Equal(t, 0, f.total(t, droppedMetric))
	})
}

// What a next component says must not mean anything to the retries.
func TestRefusedWithAnErrorOfTheRetries(t *testing.T) {
	for _, refusal := range []error{backoff.Permanent(errBusy), backoff.RetryAfter(0)} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.next.setRefuse(func(plog.Logs) error { return refusal })
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"))))
			time.Sleep(time.Minute)
			assert.Less(t, f.next.count(), 60)
			f.next.setRefuse(nil)
			f.shutdown(t)
			assert.Equal(t, []string{"a"}, f.next.texts(t))
		})
	}
}

// A refusal in part of which nothing is left is none.
func TestRefusedInNoPart(t *testing.T) {
	f := newFixture(t, nil)
	f.next.setRefuse(func(plog.Logs) error { return consumererror.NewLogs(errBusy, plog.NewLogs()) })
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"))))
	f.shutdown(t)
	assert.Equal(t, 1, f.next.count())
	assert.Equal(t, 0, f.total(t, droppedMetric))
}

// Where an output has to go while the next component refuses, one goes: to let it wait would free nothing.
func TestEvictionWhileRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.MaxPendingBytes = 1 << 20 })
		f.next.setRefuse(refuseAll)
		for i := 0; f.total(t, droppedMetric) == 0; i++ {
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(chunkOf(fmt.Sprint(i), strings.Repeat("x", 8000)))))
		}
		assert.Equal(t, map[string]int{"evicted": 1}, f.nonZero(t, recordsMetric))
		assert.Equal(t, map[string]int{"queue_full": 1}, f.nonZero(t, droppedMetric))
		assert.Greater(t, f.total(t, pendingMetric), 100)
		f.shutdown(t)
	})
}

// A parcel that a next component holds on to across Shutdown is counted once, by who holds it.
func TestHeldAcrossShutdown(t *testing.T) {
	for name, test := range map[string]struct {
		finally error
		want    map[string]int
	}{
		"taken":            {nil, map[string]int{}},
		"refused":          {errBusy, map[string]int{"shutdown": 1}},
		"refused for good": {consumererror.NewPermanent(errBusy), map[string]int{"rejected": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.next.setRefuse(refuseAll)
				require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"))))
				f.next.setRefuse(func(plog.Logs) error { time.Sleep(time.Hour); return test.finally })
				time.Sleep(time.Second) // it is tried again, and held
				for range 10 {
					require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("behind", "b"))))
				}
				require.Error(t, f.Shutdown(t.Context()))
				assert.Equal(t, map[string]int{"shutdown": 10}, f.nonZero(t, droppedMetric), "those behind it")
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				test.want["shutdown"] += 10
				assert.Equal(t, test.want, f.nonZero(t, droppedMetric))
				assert.Equal(t, 0, f.total(t, bytesMetric))
			})
		})
	}
}

// A next component may still look at the batch that it refused while it gets the next attempt.
func TestRefusedBatchStaysReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		var kept []plog.Logs
		f.next.setRefuse(func(offered plog.Logs) error {
			kept = append(kept, offered)
			go func() { _, _ = new(plog.ProtoMarshaler).MarshalLogs(offered) }()
			return errBusy
		})
		diverged := having(chunkOf("1", "a"), func(m pcommon.Map) { m.PutStr(contract.Text, "other") })
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(diverged, final("1", "b"))))
		time.Sleep(time.Minute)
		f.next.setRefuse(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"otherb"}, f.next.texts(t))
		assert.Greater(t, len(kept), 2)
		f.shutdown(t)
	})
}

// A next component that never takes anything costs bounded memory, and every record is counted.
func TestRefusedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, outputs = 1 << 20, 3000
		f := newFixture(t, func(cfg *Config) { cfg.MaxPendingBytes = limit })
		f.next.setRefuse(refuseAll)
		most := 0
		for i := range outputs {
			id := fmt.Sprint(i)
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(final(id, strings.Repeat("x", 1000)), chunkOf(id+"open", "y"))))
			most = max(most, f.total(t, bytesMetric))
		}
		assert.LessOrEqual(t, most, limit)
		assert.Greater(t, most, limit/2)
		f.shutdown(t)
		assert.Empty(t, f.next.texts(t))
		assert.Equal(t, 2*outputs, f.total(t, recordsMetric))
		assert.Equal(t, 2*outputs, f.total(t, droppedMetric))
		assert.ElementsMatch(t, []string{"queue_full", "shutdown"}, keys(f.nonZero(t, droppedMetric)))
		assert.Equal(t, 0, f.total(t, bytesMetric))
		assert.Equal(t, 0, f.total(t, pendingMetric))
	})
}

func keys(m map[string]int) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Shutdown tries once more, in order, before it gives up.
func TestRefusedUntilShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.next.setRefuse(refuseAll)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("1", "a"), chunkOf("2", "b"))))
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(final("3", "c"))))
		f.next.setRefuse(nil)
		f.shutdown(t)
		assert.Equal(t, []string{"a", "c", "b"}, f.next.texts(t))
		assert.Equal(t, 0, f.total(t, droppedMetric))
	})
}

// A next component that holds on to a call does not hold up Shutdown much beyond its context; all is counted once it lets
// go, or is there.
func TestShutdownHonoursItsContext(t *testing.T) {
	for name, holds := range map[string]time.Duration{"a while": 1500 * time.Millisecond, "for long": time.Hour} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { shutDownWhileHeld(t, holds) }) })
	}
}

func shutDownWhileHeld(t *testing.T, holds time.Duration) {
	f := newFixture(t, nil)
	release := make(chan struct{})
	time.AfterFunc(holds, func() { close(release) })
	f.next.setRefuse(func(plog.Logs) error { <-release; return errBusy })
	done := make(chan error)
	go func() { done <- f.ConsumeLogs(t.Context(), batch(chunkOf("open", "o"), final("1", "a"))) }()
	synctest.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	require.ErrorIs(t, f.Shutdown(ctx), context.DeadlineExceeded)
	assert.LessOrEqual(t, time.Since(began), time.Second+lastMoment)
	require.NoError(t, <-done, "its chunks are absorbed")
	synctest.Wait()
	assert.Equal(t, 2, f.total(t, recordsMetric))
	assert.Equal(t, map[string]int{"shutdown": 2}, f.nonZero(t, droppedMetric))
	assert.Equal(t, 0, f.total(t, pendingMetric))
	assert.Equal(t, 0, f.total(t, bytesMetric))
}
