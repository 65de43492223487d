package rawoutputexporter

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
)

// of gives a batch the process id of its resource.
func of(pid any, logs plog.Logs) plog.Logs {
	if err := logs.ResourceLogs().At(0).Resource().Attributes().FromRaw(map[string]any{processPID: pid}); err != nil {
		panic(err)
	}
	return logs
}

func fileOf(pid int) string { return fmt.Sprintf("%s/raw-%d.jsonl", theHour, pid) }

func TestPIDOfTheSource(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.PID = "source" })
	for _, pid := range []any{int64(1), int64(4194304), int64(0), int64(-1), int64(4194305), "77", 77.0, nil} {
		require.NoError(t, f.ConsumeLogs(t.Context(), of(pid, batch(recordOf(fmt.Sprint(pid), "a")))))
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("none", "a"))))
	assert.Equal(t, line("1", "a"), f.disk.Content(fileOf(1)))
	assert.Equal(t, line("4194304", "a"), f.disk.Content(fileOf(4194304)))
	assert.Equal(t, 7, strings.Count(f.disk.Content(fileOf(os.Getpid())), "\n"))
	assert.Len(t, f.disk.Files(), 3)
	f.shutdown(t)
}

// Without the option nothing of a record names a file.
func TestPIDOfTheCollector(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.ConsumeLogs(t.Context(), of(int64(1), batch(recordOf("1", "a")))))
	assert.Equal(t, []string{fileOf(os.Getpid())}, f.disk.Files())
	f.shutdown(t)
}

// Several resources in one batch: one write for each file.
func TestPIDsOfABatch(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.PID = "source" })
	logs := plog.NewLogs()
	for i := range 6 {
		of(int64(1+i%2), batch(recordOf(fmt.Sprint(i), "a"))).ResourceLogs().MoveAndAppendTo(logs.ResourceLogs())
	}
	require.NoError(t, f.ConsumeLogs(t.Context(), logs))
	assert.Equal(t, line("0", "a")+line("2", "a")+line("4", "a"), f.disk.Content(fileOf(1)))
	assert.Equal(t, line("1", "a")+line("3", "a")+line("5", "a"), f.disk.Content(fileOf(2)))
	assert.Equal(t, 2, f.disk.attempts)
	f.shutdown(t)
}

func TestHourOfWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.Hour = "written" })
		var events []event
		for i := range 1000 {
			events = append(events, func(r plog.LogRecord) {
				recordOf("1", "a")(r)
				r.SetTimestamp(pcommon.Timestamp(i) * 3600e9)
			})
		}
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(events...)))
		time.Sleep(time.Hour)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("2", "b"))))
		assert.Equal(t, []string{"2000-01-01T00", "2000-01-01T01"}, f.disk.Directories())
		assert.Equal(t, line("2", "b"), f.disk.content("2000-01-01T01"), "the line says when it was")
		f.shutdown(t)
	})
}

func TestMaxRecordBytes(t *testing.T) {
	most := line("1", "fits")
	f := newFixture(t, func(cfg *Config) { cfg.MaxRecordBytes = len(most) })
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("2", "fits not"), recordOf("1", "fits"), recordOf("3", "fits no more"))))
	assert.Equal(t, most, f.disk.content(theHour))
	assert.Equal(t, map[string]int{"too_large": 2}, f.dropped(t))
	assert.Equal(t, 1, f.total(t, writtenMetric))
	f.shutdown(t)
}

// A batch with nothing to write makes no file.
func TestNothingButTooLarge(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.MaxRecordBytes = 10 })
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
	assert.Empty(t, f.disk.Files())
	assert.Equal(t, map[string]int{"too_large": 1}, f.dropped(t))
	f.shutdown(t)
}

// The disk is full before it is full.
func TestMinFreeBytes(t *testing.T) {
	f := create(t, func(cfg *Config) {
		cfg.Retention.MinFreeBytes = 1000
		cfg.RetryOnFailure.Enabled = false
	})
	f.disk.Capacity = 1000 + int64(len(line("1", "a")))
	require.NoError(t, f.Start(t.Context(), f.host))
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("2", "b"))))
	assert.Equal(t, line("1", "a"), f.disk.content(theHour))
	assert.Equal(t, map[string]int{"disk_full": 1}, f.dropped(t))
	f.shutdown(t)
}

// Before records are refused for want of free bytes, old files of ours go.
func TestMinFreeBytesOfOldFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := create(t, func(cfg *Config) { cfg.Retention.MinFreeBytes = 1000 })
		for i := range 9 {
			old := time.Now().Add(time.Duration(i-100) * time.Hour)
			f.disk.Append(fmt.Sprintf("1999-12-01T0%d/raw-1-abcdefghij234.jsonl", i), strings.Repeat("x", 999)+"\n", old)
		}
		f.disk.Capacity = 9*1000 + 5000
		require.NoError(t, f.Start(t.Context(), f.host))
		time.Sleep(5 * time.Second)
		f.disk.Append("of another program", strings.Repeat("x", 4000), time.Now())
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
		assert.Equal(t, line("1", "a"), f.disk.content(theHour))
		assert.Empty(t, f.dropped(t))
		assert.Len(t, f.disk.Directories(), 8+1, "the oldest is gone")
		assert.NotContains(t, f.disk.Directories(), "1999-12-01T00")
		f.shutdown(t)
	})
}

// Two exporters with one directory share its files; with other settings there would be two.
func TestTwoExportersOfOneDirectory(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "out")
	in := func(cfg *Config) { cfg.Directory = directory }
	first := newFixture(t, in)
	second := newFixture(t, func(cfg *Config) {
		in(cfg)
		cfg.RetryOnFailure.Enabled = false // it is about sending, not about the files
	})
	assert.Same(t, first.inner.files, second.inner.files)
	require.NoError(t, first.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
	require.NoError(t, second.ConsumeLogs(t.Context(), batch(recordOf("2", "b"))))
	first.shutdown(t)
	require.NoError(t, second.ConsumeLogs(t.Context(), batch(recordOf("3", "c"))))
	assert.Equal(t, 3, len(fileLines(t, directory, theHour)))
	assert.Equal(t, 1, first.total(t, writtenMetric))
	assert.Equal(t, 2, second.total(t, writtenMetric))

	cfg := createDefaultConfig().(*Config)
	in(cfg)
	cfg.FilePermissions = "0600"
	_, err := createLogs(t.Context(), second.settings(), cfg)
	require.ErrorContains(t, err, fmt.Sprintf("directory is %q: another raw_output exporter writes there with other permissions", directory))
	second.shutdown(t)
	assert.Empty(t, filesInUse.byKey, "nothing stays behind")
	assert.Empty(t, sharedInUse.byKey)
}

func TestRetryOnStart(t *testing.T) {
	obstacle := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(obstacle, nil, 0o600))
	f := newFixture(t, func(cfg *Config) {
		cfg.Directory = obstacle
		cfg.RetryOnStart = true
		cfg.RetryOnFailure.Enabled = false
	})
	assert.Equal(t, 1, f.logs.FilterMessage("Raw-output records can't be written").Len())
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
	assert.Equal(t, map[string]int{"io_error": 1}, f.dropped(t))
	require.NoError(t, os.Remove(obstacle))
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("2", "b"))))
	assert.Equal(t, 1, f.total(t, writtenMetric))
	assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, f.host.events)
	f.shutdown(t)
}

// What happens to the files is counted.
func TestFileMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := create(t, nil)
		value := func(name string) int { return f.total(t, "otelcol_exporter_raw_output_"+name) }
		for _, name := range []string{"open_files", "rollbacks", "torn_tails", "torn_bytes", "fsync_failures"} {
			assert.Equal(t, map[string]int{"": 0}, metrictest.Values(t, f.telemetry, "otelcol_exporter_raw_output_"+name))
		}
		f.disk.Append("1999-12-31T23/raw-77.jsonl", "torn", time.Now().Add(-time.Hour))
		require.NoError(t, f.Start(t.Context(), f.host))
		synctest.Wait()
		assert.Equal(t, 1, value("torn_tails"))
		assert.Equal(t, 4, value("torn_bytes"))

		require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
		assert.Equal(t, 1, value("open_files"))
		assert.Equal(t, uint64(1), observations(t, f, "write_duration"))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, uint64(1), observations(t, f, "fsync_duration"))

		f.failOnce(disktest.Write, syscall.ENOSPC)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("2", "b"))))
		assert.Equal(t, 1, value("rollbacks"))
		assert.Equal(t, line("1", "a")+line("2", "b"), f.disk.content(theHour))

		f.failOnce(disktest.Sync, syscall.EIO)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, value("fsync_failures"))
		assert.Equal(t, 1, f.logs.FilterMessageSnippet("may not be safe").Len())
		f.shutdown(t)
		assert.Equal(t, 0, value("open_files"))
	})
}

// failOnce makes the next such call fail. Half of a write is written all the same.
func (f *fixture) failOnce(fails disktest.Call, with error) {
	failed := false
	f.disk.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
		if call != fails || failed {
			return nil, nil
		}
		failed = true
		return func(bytes int) int { return bytes / 2 }, with
	})
}

func observations(t *testing.T, f *fixture, name string) uint64 {
	t.Helper()
	histogram, err := f.telemetry.GetMetric("otelcol_exporter_raw_output_" + name)
	require.NoError(t, err)
	points := histogram.Data.(metricdata.Histogram[float64]).DataPoints
	require.Len(t, points, 1)
	return points[0].Count
}

func TestFreeBytes(t *testing.T) {
	f := newFixture(t, nil)
	free, err := f.telemetry.GetMetric("otelcol_exporter_raw_output_free_bytes")
	require.NoError(t, err)
	points := free.Data.(metricdata.Gauge[int64]).DataPoints
	require.Len(t, points, 1)
	directory, _ := points[0].Attributes.Value("directory")
	assert.Equal(t, "on the disk", directory.AsString())
	assert.Positive(t, points[0].Value)
	f.shutdown(t)
}

// A directory that everybody can write to is used, with a warning: what is in it can be replaced.
func TestOthersMayWrite(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such permissions")
	}
	for permissions, want := range map[os.FileMode]int{0o755: 0, 0o770: 0, 0o777: 1, os.ModeSticky | 0o777: 1} {
		directory := t.TempDir()
		require.NoError(t, os.Chmod(directory, permissions))
		f := newFixture(t, func(cfg *Config) { cfg.Directory = directory })
		assert.Equal(t, want, f.logs.FilterMessageSnippet("Other users may write to the directory").Len(), permissions)
		f.shutdown(t)
	}
}

// TestEachCallFails lets each call to the disk fail once, with and without trying again: whatever failed, the lines in the
// files are whole, they are as many as are counted as written, and written + dropped is what was sent.
func TestEachCallFails(t *testing.T) {
	for _, retry := range []bool{true, false} {
		for _, fsync := range []string{"never", "interval", "always"} {
			for n := 1; failNth(t, &disktest.Nth{N: n, Percent: 50}, retry, fsync); n++ {
			}
		}
	}
}

func failNth(t *testing.T, fault *disktest.Nth, retry bool, fsync string) (failed bool) {
	synctest.Test(t, func(t *testing.T) {
		f := create(t, func(cfg *Config) {
			cfg.Fsync, cfg.MaxOpenFiles, cfg.RetryOnFailure.Enabled = fsync, 1, retry
			cfg.Compression = "zstd"
		})
		f.disk.SetFault(fault.Fault)
		if err := f.Start(t.Context(), f.host); err != nil {
			f.shutdown(t)
			failed = true
			return
		}
		const batches = 6
		for i := range batches {
			later := func(r plog.LogRecord) {
				recordOf("later", "x")(r)
				r.SetTimestamp(r.Timestamp() + pcommon.Timestamp(i%2)*3600e9)
			}
			require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "x"), later)))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		f.shutdown(t)
		failed = fault.Failed != ""

		written, dropped := f.total(t, writtenMetric), f.total(t, droppedMetric)
		assert.Equal(t, 2*batches, written+dropped, "after %s failed", fault.Failed)
		assert.True(t, dropped == 0 || !retry, "one fault is no reason to give up, %s", fault.Failed)
		lines := 0
		for _, path := range f.disk.Files() {
			content := f.disk.Content(path)
			assert.True(t, content == "" || strings.HasSuffix(content, "\n"), "after %s failed", fault.Failed)
			lines += strings.Count(content, "\n")
		}
		assert.Equal(t, written, lines, "after %s failed", fault.Failed)
		assert.Equal(t, 0, f.total(t, "otelcol_exporter_raw_output_open_files"))
	})
	return failed
}
