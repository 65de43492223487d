package rawoutputexporter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadata"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
)

var errBroken = errors.New("broken")

func TestWrites(t *testing.T) {
	directory := t.TempDir()
	f := newFixture(t, func(cfg *Config) { cfg.Directory = directory })
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"), other, recordOf("2", ""))))
	assert.Equal(t, []string{line("1", "a"), strings.TrimSuffix(line("2", ""), "\n")}, fileLines(t, directory, theHour))
	assert.Equal(t, 2, f.total(t, writtenMetric))
	assert.Equal(t, len(line("1", "a")+line("2", "")), f.total(t, bytesMetric))
	assert.Equal(t, 1, f.total(t, skippedMetric))
	assert.Equal(t, 0, f.total(t, droppedMetric))
	assert.Equal(t, 1, f.logs.FilterMessage("Recording raw outputs").Len())
	f.shutdown(t)
}

// Each record goes to the hour of its own end, whatever the order.
func TestHours(t *testing.T) {
	f := newFixture(t, nil)
	later := func(r plog.LogRecord) {
		recordOf("later", "b")(r)
		r.SetTimestamp(finishedAt + 3600e9)
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"), later, recordOf("2", "c"))))
	assert.Equal(t, line("1", "a")+line("2", "c"), f.disk.content(theHour))
	assert.Contains(t, f.disk.content("2026-11-04T06"), `"later"`)
	assert.Equal(t, 2, f.disk.attempts, "one write for each file and batch")
	f.shutdown(t)
}

func TestMetricsFromTheStart(t *testing.T) {
	f := newFixture(t, nil)
	for metric, want := range map[string]map[string]int{
		writtenMetric: {"": 0}, bytesMetric: {"": 0}, skippedMetric: {"": 0},
		droppedMetric: {"malformed": 0, "encoding": 0, "too_large": 0, "io_error": 0, "disk_full": 0, "permission": 0, "queue_full": 0, "shutdown": 0},
	} {
		assert.Equal(t, want, metrictest.Values(t, f.telemetry, metric), metric)
	}
	f.shutdown(t)
}

func TestMalformedRecords(t *testing.T) {
	f := newFixture(t, nil)
	wrong := func(key string, set func(plog.LogRecord)) event {
		return func(r plog.LogRecord) {
			recordOf("1", "secret")(r)
			set(r)
		}
	}
	events := []event{
		malformedRecord,
		wrong("no text", func(r plog.LogRecord) { r.Attributes().Remove(contract.Text) }),
		wrong("no id", func(r plog.LogRecord) { r.Attributes().PutStr(contract.RequestID, "") }),
		wrong("flag", func(r plog.LogRecord) { r.Attributes().PutStr(contract.Partial, "secret") }),
		wrong("frames", func(r plog.LogRecord) { r.Attributes().PutStr(contract.Frames, "secret") }),
		wrong("ids", func(r plog.LogRecord) { r.Attributes().PutEmptySlice(contract.TokenIDs).AppendEmpty().SetInt(1 << 32) }),
		recordOf("2", "fine"),
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(events...)))
	assert.Equal(t, map[string]int{"malformed": 6}, f.dropped(t))
	assert.Equal(t, 1, f.total(t, writtenMetric))
	assert.Equal(t, line("2", "fine"), f.disk.content(theHour))
	for _, entry := range f.logs.All() {
		assert.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), "secret")
	}
	f.shutdown(t)
}

func TestSwitchedOff(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.Directory = "" })
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"), other, malformedRecord)))
	f.shutdown(t)
	assert.Equal(t, 0, f.total(t, writtenMetric)+f.total(t, skippedMetric)+f.total(t, droppedMetric))
	assert.Equal(t, 1, f.logs.Len())
}

// The exporters of one configuration are one to the user: they say a thing once and count their drops together.
func TestLogsAndTracesShare(t *testing.T) {
	f := create(t, nil)
	set := f.settings()
	traces, err := createTraces(t.Context(), set, f.cfg)
	require.NoError(t, err)
	require.NoError(t, f.Start(t.Context(), f.host))
	require.NoError(t, traces.Start(t.Context(), f.host))
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(malformedRecord, recordOf("1", "a"))))
	spans := ptrace.NewTraces()
	span := spans.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName(contract.EventRecord)
	require.NoError(t, traces.ConsumeTraces(t.Context(), spans))
	span.Attributes().PutInt(contract.RequestID, 2)
	span.Attributes().PutStr(contract.Text, "b")
	span.SetStartTimestamp(finishedAt - 1e9)
	span.SetEndTimestamp(finishedAt)
	require.NoError(t, traces.ConsumeTraces(t.Context(), spans))
	f.shutdown(t)
	require.NoError(t, traces.Shutdown(t.Context()))

	want := strings.Replace(line("2", "b"), "05:12:33.123456", "05:12:32.123456", 1) // a span's start is the record's
	assert.Equal(t, line("1", "a")+want, f.disk.content(theHour))
	assert.Equal(t, map[string]int{"malformed": 2}, f.dropped(t))
	assert.Equal(t, 2, f.total(t, writtenMetric))
	assert.Equal(t, 0, f.logs.Len(), "the second one has nothing to add")
	assert.NotContains(t, sharedInUse.byKey, f.cfg, "nothing stays behind")
}

// What can't be written is tried again while the caller's patience lasts.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.disk.setFail(errBroken)
		time.AfterFunc(time.Second, func() { f.disk.setFail(nil) })
		began := time.Now()
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
		assert.GreaterOrEqual(t, time.Since(began), time.Second)
		assert.LessOrEqual(t, time.Since(began), mostWait)
		assert.Equal(t, line("1", "a"), f.disk.content(theHour))
		assert.Equal(t, 0, f.total(t, droppedMetric))
		f.shutdown(t)
	})
}

func TestGiveUp(t *testing.T) {
	for name, test := range map[string]struct {
		fail error
		want string
	}{
		"io_error":   {errBroken, "io_error"},
		"disk_full":  {syscall.ENOSPC, "disk_full"},
		"quota":      {syscall.EDQUOT, "disk_full"},
		"permission": {syscall.EACCES, "permission"},
		"read_only":  {syscall.EROFS, "permission"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.disk.setFail(test.fail)
				began := time.Now()
				require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "secret"), recordOf("2", "b"))), "the sender never fails")
				assert.LessOrEqual(t, time.Since(began), mostWait)
				assert.Greater(t, f.disk.attempts, 2)
				assert.Equal(t, map[string]int{test.want: 2}, f.dropped(t))
				warnings := f.logs.FilterMessage("Raw-output records were dropped")
				require.Equal(t, 1, warnings.Len())
				assert.NotContains(t, fmt.Sprint(warnings.All()[0].ContextMap()), "secret")
				f.disk.setFail(nil)
				require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("3", "c"))))
				assert.Equal(t, line("3", "c"), f.disk.content(theHour))
				assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, f.host.events)
				f.shutdown(t)
			})
		})
	}
}

// Many hours that all fail share one patience.
func TestGiveUpOnManyHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.disk.setFail(errBroken)
		var events []event
		for hour := range 1000 {
			events = append(events, func(r plog.LogRecord) {
				recordOf("1", "a")(r)
				r.SetTimestamp(r.Timestamp() + pcommon.Timestamp(hour)*3600e9)
			})
		}
		began := time.Now()
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(events...)))
		assert.LessOrEqual(t, time.Since(began), mostWait)
		assert.Equal(t, map[string]int{"io_error": 1000}, f.dropped(t))
		f.shutdown(t)
	})
}

func TestNoRetry(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.RetryOnFailure.Enabled = false })
	f.disk.setFail(errBroken)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
	assert.Equal(t, 1, f.disk.attempts)
	assert.Equal(t, map[string]int{"io_error": 1}, f.dropped(t))
	f.shutdown(t)
}

// A sender that is gone is not waited for, but what can be written at once is.
func TestSenderThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, f.ConsumeLogs(gone, batch(recordOf("1", "a"))))
		assert.Equal(t, 1, f.total(t, writtenMetric))
		f.disk.setFail(errBroken)
		began := time.Now()
		require.NoError(t, f.ConsumeLogs(gone, batch(recordOf("2", "b"))))
		assert.Zero(t, time.Since(began))
		assert.Equal(t, map[string]int{"io_error": 1}, f.dropped(t))
		f.shutdown(t)
	})
}

// The warning comes with the first drop and with every 1000th.
func TestWarnings(t *testing.T) {
	f := newFixture(t, nil)
	want := 0
	for i := range 2500 {
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(malformedRecord)))
		if i == 0 || (i+1)%1000 == 0 {
			want++
		}
		require.Equal(t, want, f.logs.FilterMessage("Raw-output records were dropped").Len(), i)
	}
	last := f.logs.FilterMessage("Raw-output records were dropped").All()[2].ContextMap()
	assert.Equal(t, int64(2000), last["dropped_records"])
	assert.Equal(t, "malformed", last["reason"])
	assert.NotEmpty(t, last["error"])
	f.shutdown(t)
}

// A queue that is full drops and counts; the sender sees success.
func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) {
			queue := cfg.QueueConfig.GetOrInsertDefault()
			queue.QueueSize, queue.NumConsumers = 2, 1
			cfg.RetryOnFailure.MaxElapsedTime = time.Hour
		})
		f.disk.setFail(errBroken)
		for range 5 { // one or two wait in the queue, one is tried
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"), other)))
			synctest.Wait()
		}
		dropped := f.dropped(t)["queue_full"]
		assert.GreaterOrEqual(t, dropped, 2)
		f.disk.setFail(nil)
		time.Sleep(time.Hour)
		f.shutdown(t)
		assert.Equal(t, 5, f.total(t, writtenMetric)+f.total(t, droppedMetric))
		assert.Equal(t, 5, f.total(t, skippedMetric), "what is no record is skipped, not dropped")
		assert.Equal(t, map[string]int{"queue_full": dropped}, f.dropped(t))
	})
}

// Shutdown writes what waits in the queue, without trying again.
func TestShutdownWithAQueue(t *testing.T) {
	for name, fail := range map[string]error{"written": nil, "dropped": errBroken} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(cfg *Config) {
					cfg.QueueConfig.GetOrInsertDefault().NumConsumers = 1
					cfg.RetryOnFailure.MaxElapsedTime = 0
				})
				f.disk.setFail(errBroken)
				for range 5 {
					require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
				}
				synctest.Wait()
				f.disk.setFail(fail)
				began := time.Now()
				f.shutdown(t)
				assert.Less(t, time.Since(began), time.Second)
				assert.Equal(t, 5, f.total(t, writtenMetric)+f.dropped(t)["shutdown"])
				if fail == nil {
					assert.GreaterOrEqual(t, f.total(t, writtenMetric), 4, "all but the one that waited to be tried again")
				}
			})
		})
	}
}

// Each hour that is given up is counted by what it met itself.
func TestReasonsByHour(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.RetryOnFailure.Enabled = false })
	f.disk.failHour = map[string]error{theHour: syscall.ENOSPC, "2026-11-04T06": syscall.EACCES}
	later := func(r plog.LogRecord) {
		recordOf("2", "b")(r)
		r.SetTimestamp(finishedAt + 3600e9)
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"), later, later)))
	assert.Equal(t, map[string]int{"disk_full": 1, "permission": 2}, f.dropped(t))
	f.shutdown(t)
}

// Lines that may be there are not written again.
func TestUncertain(t *testing.T) {
	f := newFixture(t, nil)
	f.disk.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
		if call == disktest.Write || call == disktest.Truncate {
			return func(bytes int) int { return bytes }, syscall.EDQUOT
		}
		return nil, nil
	})
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
	f.disk.SetFault(nil)
	assert.Equal(t, line("1", "a"), f.disk.content(theHour))
	assert.Equal(t, map[string]int{"disk_full": 1}, f.dropped(t), "perhaps: better said too often than not")
	f.shutdown(t)
}

// Callers that wait at a full queue do not hold up Shutdown.
func TestShutdownWithBlockedCallers(t *testing.T) {
	for name, change := range map[string]func(*exporterhelper.QueueBatchConfig){
		"in memory": func(*exporterhelper.QueueBatchConfig) {},
		"on disk": func(queue *exporterhelper.QueueBatchConfig) {
			store := component.MustNewID("store")
			queue.StorageID = &store
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := create(t, func(cfg *Config) {
					queue := cfg.QueueConfig.GetOrInsertDefault()
					queue.QueueSize, queue.NumConsumers, queue.BlockOnOverflow = 1, 1, true
					cfg.RetryOnFailure.MaxElapsedTime = 0
					change(queue)
				})
				kept := &memoryStore{values: map[string][]byte{}}
				f.host.extensions = map[component.ID]component.Component{component.MustNewID("store"): kept}
				f.disk.setFail(errBroken)
				require.NoError(t, f.Start(t.Context(), f.host))
				for range 4 {
					go func() { assert.NoError(t, f.ConsumeLogs(context.Background(), batch(recordOf("1", "a")))) }()
				}
				time.Sleep(time.Minute)
				f.shutdown(t)
				synctest.Wait()
				assert.GreaterOrEqual(t, f.dropped(t)["shutdown"], 2, "those that waited")
				assert.Equal(t, f.total(t, droppedMetric), f.dropped(t)["shutdown"])
			})
		})
	}
}

// A queue on disk keeps what can't be written, across Shutdown, and nothing of it is counted twice.
func TestQueueOnDisk(t *testing.T) {
	store := component.MustNewID("store")
	onDisk := func(cfg *Config) {
		cfg.QueueConfig.GetOrInsertDefault().StorageID = &store
		cfg.RetryOnFailure.MaxElapsedTime = 5 * time.Minute
	}
	kept := &memoryStore{values: map[string][]byte{}}
	synctest.Test(t, func(t *testing.T) {
		const batches = 100
		first := create(t, onDisk)
		first.host.extensions = map[component.ID]component.Component{store: kept}
		first.disk.setFail(syscall.ENOSPC)
		require.NoError(t, first.Start(t.Context(), first.host))
		for i := range batches {
			require.NoError(t, first.ConsumeLogs(t.Context(), batch(recordOf(fmt.Sprint(i), "a"), other, malformedRecord)))
		}
		synctest.Wait()
		first.shutdown(t)
		assert.Equal(t, 0, first.total(t, writtenMetric)+first.total(t, droppedMetric)+first.total(t, skippedMetric))

		second := create(t, onDisk)
		second.host.extensions = first.host.extensions
		require.NoError(t, second.Start(t.Context(), second.host))
		synctest.Wait()
		second.shutdown(t)
		assert.Equal(t, batches, second.total(t, writtenMetric))
		assert.Equal(t, batches, second.total(t, skippedMetric))
		assert.Equal(t, map[string]int{"malformed": batches}, second.dropped(t))
		assert.Equal(t, batches, strings.Count(second.disk.content(theHour), "\n"))
	})
}

// A start that fails in the queue leaves nothing behind.
func TestStartFailsInTheQueue(t *testing.T) {
	missing := component.MustNewID("missing")
	f := create(t, func(cfg *Config) { cfg.QueueConfig.GetOrInsertDefault().StorageID = &missing })
	require.ErrorContains(t, f.Start(t.Context(), f.host), "no storage client extension found")
	f.shutdown(t)
	assert.NotContains(t, sharedInUse.byKey, f.cfg)
}

func TestShutdown(t *testing.T) {
	f := newFixture(t, nil)
	f.shutdown(t)
	f.shutdown(t)
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"), other)))
	assert.Equal(t, map[string]int{"shutdown": 1}, f.dropped(t))
	assert.Equal(t, 1, f.total(t, skippedMetric))
}

func TestShutdownWithoutStart(t *testing.T) {
	for name, change := range map[string]func(*Config){"plain": nil, "queue": func(cfg *Config) { cfg.QueueConfig.GetOrInsertDefault() }} {
		t.Run(name, func(t *testing.T) {
			f := create(t, change)
			f.shutdown(t)
			f.shutdown(t)
		})
	}
}

func TestStartFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, directory := range map[string]string{"a file": file, "below a file": filepath.Join(file, "below")} {
		t.Run(name, func(t *testing.T) {
			f := create(t, func(cfg *Config) { cfg.Directory = directory })
			err := f.Start(t.Context(), f.host)
			require.ErrorContains(t, err, fmt.Sprintf("directory is %q: it must be a directory that this process can write to", directory))
			f.shutdown(t)
		})
	}
}

// Written + dropped + skipped is what was received, whoever sends at once and whatever fails in between.
func TestEverythingIsCounted(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.RetryOnFailure.Enabled = false })
	const senders, batches = 8, 200
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := range batches {
				if i%7 == 0 {
					f.disk.setFail(syscall.ENOSPC)
				} else {
					f.disk.setFail(nil)
				}
				id := fmt.Sprintf("%d-%d", sender, i)
				assert.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf(id, "a"), other, malformedRecord, recordOf(id, "b"))))
			}
		})
	}
	wg.Wait()
	f.shutdown(t)
	written := f.total(t, writtenMetric)
	assert.Equal(t, 4*senders*batches, written+f.total(t, droppedMetric)+f.total(t, skippedMetric))
	assert.Equal(t, senders*batches, f.total(t, skippedMetric))
	assert.Equal(t, senders*batches, f.dropped(t)["malformed"])
	assert.Equal(t, written, strings.Count(f.disk.content(theHour), "\n"))
	assert.Equal(t, len(f.disk.content(theHour)), f.total(t, bytesMetric))
}

func TestFactory(t *testing.T) {
	assert.Equal(t, metadata.Type, NewFactory().Type())
	e, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(metadata.Type), NewFactory().CreateDefaultConfig())
	require.NoError(t, err)
	assert.False(t, e.Capabilities().MutatesData)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.Shutdown(t.Context()))
}
