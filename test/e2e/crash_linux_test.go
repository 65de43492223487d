package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otel-rawoutput/rawoutput/internal/collector"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
)

const (
	tornTails = "otelcol_exporter_raw_output_torn_tails"
	tornBytes = "otelcol_exporter_raw_output_torn_bytes"
	rollbacks = "otelcol_exporter_raw_output_rollbacks"
	openFiles = "otelcol_exporter_raw_output_open_files"
)

// startAs starts the Collector in a PID namespace of its own, where its process id is 1, as in a container.
func startAs1(t *testing.T, config string) *collector.Collector {
	t.Helper()
	needsRoot(t, "a PID namespace")
	c, err := collector.StartWith(background(t), builtPath(t, collectorVariable), []string{config}, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	})
	if err != nil && strings.Contains(err.Error(), "operation not permitted") {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	return c
}

func needsRoot(t *testing.T, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("%s needs root", what)
	}
}

// killUnderLoad sends from several senders at once until so many batches were acknowledged, and kills the Collector.
func killUnderLoad(t *testing.T, c *collector.Collector, p pipeline, l *ledger, batches int) {
	const senders = 3
	killed := make(chan struct{})
	acks := make(chan struct{}, senders)
	var all sync.WaitGroup
	for range senders {
		client := dial(t, p.socket)
		text := strings.Repeat("what the model said ", 20_000) // a write of 4 MB is torn more easily
		all.Go(func() {
			for l.deliver(t, client, 10, text) == nil {
				select {
				case acks <- struct{}{}:
				case <-killed:
				}
			}
		})
	}
	for range batches {
		<-acks
	}
	kill(t, c, p)
	close(killed)
	all.Wait()
}

// kill kills the Collector, which leaves its socket behind.
func kill(t *testing.T, c *collector.Collector, p pipeline) {
	t.Helper()
	c.Kill()
	require.NoError(t, os.Remove(p.socket))
}

// TestKill kills the Collector under load, again and again: nothing that was acknowledged is lost, and after a restart no line
// is broken.
func TestKill(t *testing.T) {
	p := onePipeline(t, "logs")
	l := newLedger()
	for range rounds(8, 200) {
		killUnderLoad(t, start(t, []string{configOf(p)}), p, l, 3+rand.IntN(20))
	}
	makeOld(t, filesOf(t, p.directory), 2*time.Minute) // until then somebody might be writing
	torn := 0
	for _, path := range filesOf(t, p.directory) {
		if isTorn(t, path) {
			torn++
		}
	}
	t.Logf("%d records acknowledged, %d of %d files torn", len(l.acked), torn, len(filesOf(t, p.directory)))
	c := start(t, []string{configOf(p)})
	require.Eventually(t, func() bool { return sum(t, c, tornTails) == torn }, patience, patience/600)
	stop(t, c)
	l.check(t, linesOf(t, p.directory))
}

func isTorn(t *testing.T, path string) bool {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return len(content) > 0 && content[len(content)-1] != '\n'
}

// TestKillAndGoOn does the same where each Collector has the process id of the one before: it goes on in the same file at once.
func TestKillAndGoOn(t *testing.T) {
	p := onePipeline(t, "logs")
	l := newLedger()
	for range rounds(8, 200) {
		killUnderLoad(t, startAs1(t, configOf(p)), p, l, 3+rand.IntN(20))
	}
	c := startAs1(t, configOf(p))
	require.NoError(t, l.deliver(t, dial(t, p.socket), 1, "the last"))
	if torn := sum(t, c, tornTails); torn > 0 {
		assert.Positive(t, sum(t, c, tornBytes))
	}
	stop(t, c)
	files := filesOf(t, p.directory)
	assert.Equal(t, []string{filepath.Join(p.directory, theHour, "raw-1.jsonl")}, files)
	l.check(t, linesOf(t, p.directory))
}

// TestTwoCollectors lets two Collectors with one process id write to one directory at the same time, as containers do that
// share a volume.
func TestTwoCollectors(t *testing.T) {
	first := onePipeline(t, "logs")
	second := onePipeline(t, "logs")
	second.directory = first.directory
	l := newLedger()
	var collectors []*collector.Collector
	var all sync.WaitGroup
	for _, p := range []pipeline{first, second} {
		collectors = append(collectors, startAs1(t, configOf(p)))
		client := dial(t, p.socket)
		all.Go(func() {
			for range 100 {
				assert.NoError(t, l.deliver(t, client, 10, strings.Repeat("x", 50_000)))
			}
		})
	}
	all.Wait()
	for _, c := range collectors {
		assert.Equal(t, 1000, sum(t, c, writtenRecords))
		assert.Equal(t, 0, sum(t, c, tornTails))
		stop(t, c)
	}
	assert.GreaterOrEqual(t, len(filesOf(t, first.directory)), 2, "each has its own")
	assert.FileExists(t, filepath.Join(first.directory, theHour, "raw-1.jsonl"))
	assert.Len(t, l.acked, 2000)
	l.check(t, linesOf(t, first.directory))
}

// mount mounts a file system for the time of a test.
func mount(t *testing.T, source, fstype, options string) (directory string) {
	t.Helper()
	needsRoot(t, "mounting a file system")
	directory = t.TempDir()
	if err := unix.Mount(source, directory, fstype, 0, options); err != nil {
		t.Skipf("%s can't be mounted here: %v", fstype, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
	return directory
}

// on puts the directory of a pipeline on a file system, and gives up soon on what can't be written.
func on(t *testing.T, fileSystem string) pipeline {
	p := onePipeline(t, "logs")
	p.directory = filepath.Join(fileSystem, "out")
	p.exporter = "retry_on_failure: {max_elapsed_time: 100ms, initial_interval: 10ms, max_interval: 50ms}"
	return p
}

// TestFullDisk fills a disk of 6 MB: every line is whole, each record is written or counted, and it goes on in the same file
// when there is space again.
func TestFullDisk(t *testing.T) {
	disk := mount(t, "none", "tmpfs", "size=6m")
	ballast := filepath.Join(disk, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 2<<20), 0o600))
	p := on(t, disk)
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	for sum(t, c, droppedRecords, "reason", "disk_full") < 500 {
		require.NoError(t, l.deliver(t, client, 100, strings.Repeat("x", 3000)), "no sender fails")
	}
	full := sum(t, c, writtenRecords)
	assert.Positive(t, sum(t, c, rollbacks))
	assert.Len(t, linesOf(t, p.directory), full)

	require.NoError(t, os.Remove(ballast))
	require.NoError(t, l.deliver(t, client, 100, strings.Repeat("x", 3000)))
	assert.Equal(t, full+100, sum(t, c, writtenRecords))
	assert.Equal(t, l.sent, sum(t, c, writtenRecords)+sum(t, c, droppedRecords))
	stop(t, c)
	assert.Len(t, linesOf(t, p.directory), full+100)
	assert.Len(t, filesOf(t, p.directory), 1)
}

// TestMinFreeBytes stops writing before the disk is full.
func TestMinFreeBytes(t *testing.T) {
	disk := mount(t, "none", "tmpfs", "size=6m")
	p := on(t, disk)
	p.exporter += ", retention: {min_free_bytes: 4000000}"
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	for range 20 {
		require.NoError(t, l.deliver(t, client, 100, strings.Repeat("x", 3000)))
	}
	written := sum(t, c, writtenRecords)
	assert.Positive(t, written)
	assert.Equal(t, l.sent-written, sum(t, c, droppedRecords, "reason", "disk_full"))
	assert.Equal(t, 0, sum(t, c, rollbacks), "the disk was never full")
	var stat unix.Statfs_t
	require.NoError(t, unix.Statfs(disk, &stat))
	assert.GreaterOrEqual(t, int64(stat.Bavail)*int64(stat.Bsize), int64(4_000_000-100*4096))
	stop(t, c)
	assert.Len(t, linesOf(t, p.directory), written)
}

// TestMinFreeBytesOfOldFiles writes more than there is room for: old files make room, as many as are needed.
func TestMinFreeBytesOfOldFiles(t *testing.T) {
	p := onePipeline(t, "logs")
	p.directory = filepath.Join(mount(t, "none", "tmpfs", "size=30m"), "out")
	p.exporter = "retention: {min_free_bytes: 5000000}"
	old := filepath.Join(p.directory, "2026-01-01T00")
	require.NoError(t, os.MkdirAll(old, 0o755))
	const oldFiles = 20
	var paths []string
	for i := range oldFiles {
		path := filepath.Join(old, fmt.Sprintf("raw-%d-abcdefghijklm.jsonl", 100+i))
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 999_999)+"\n"), 0o600))
		paths = append(paths, path)
	}
	makeOld(t, paths, 100*time.Hour)
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	const enough = 4000 // records, twice of what there is room for
	for sum(t, c, writtenRecords) < enough && l.sent < 10*enough {
		require.NoError(t, l.deliver(t, client, 20, strings.Repeat("x", 3000)))
	}
	written := sum(t, c, writtenRecords)
	assert.GreaterOrEqual(t, written, enough)
	assert.Equal(t, l.sent, written+sum(t, c, droppedRecords, "reason", "disk_full"))
	stop(t, c)
	left, err := os.ReadDir(old)
	require.NoError(t, err)
	assert.Greater(t, len(left), oldFiles/4, "no more are removed than must be")
	assert.Less(t, len(left), oldFiles)
}

// TestNoInodes lets no file be made any more: what has a file is written.
func TestNoInodes(t *testing.T) {
	p := on(t, mount(t, "none", "tmpfs", "nr_inodes=5"))
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	require.NoError(t, l.deliver(t, client, 1, "has a file"))
	later := recordsOf([]string{"later"}, "has none")
	later.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).SetTimestamp(streamStartedAt + 3600e9)
	require.NoError(t, client.SendLogs(background(t), later))
	assert.Equal(t, 1, sum(t, c, droppedRecords, "reason", "disk_full"))
	require.NoError(t, l.deliver(t, client, 1, "has a file"))
	assert.Equal(t, 2, sum(t, c, writtenRecords))
	stop(t, c)
	l.check(t, linesOf(t, p.directory))
}

// TestReadOnly remounts the file system, and back.
func TestReadOnly(t *testing.T) {
	disk := mount(t, "none", "tmpfs", "size=6m")
	p := on(t, disk)
	c := start(t, []string{configOf(p)})
	require.NoError(t, unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	l, client := newLedger(), dial(t, p.socket)
	require.NoError(t, l.deliver(t, client, 10, "x"))
	assert.Equal(t, 10, sum(t, c, droppedRecords, "reason", "permission"))
	require.NoError(t, unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, ""))
	require.NoError(t, l.deliver(t, client, 10, "x"))
	assert.Equal(t, 10, sum(t, c, writtenRecords))
	stop(t, c)
	assert.Len(t, linesOf(t, p.directory), 10)
}

// TestFileSizeLimit lets no file become larger than a limit.
func TestFileSizeLimit(t *testing.T) {
	p := onePipeline(t, "logs")
	p.exporter = "retry_on_failure: {enabled: false}"
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	limit := func(bytes uint64) {
		require.NoError(t, unix.Prlimit(c.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil))
	}
	limit(110_000)
	for range 10 {
		require.NoError(t, l.deliver(t, client, 10, strings.Repeat("x", 3000)))
	}
	assert.Equal(t, 30, sum(t, c, writtenRecords))
	assert.Equal(t, 70, sum(t, c, droppedRecords, "reason", "io_error"))
	assert.Positive(t, sum(t, c, rollbacks))
	limit(unix.RLIM_INFINITY)
	require.NoError(t, l.deliver(t, client, 10, "goes on"))
	assert.Equal(t, 40, sum(t, c, writtenRecords))
	stop(t, c)
	assert.Len(t, linesOf(t, p.directory), 40)
	assert.Len(t, filesOf(t, p.directory), 1)
}

// shutDown is what ext4 does on a power cut, as far as the disk can tell: what is not on it will never be. From
// fs/ext4/ext4.h: EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH.
func shutDown(t *testing.T, directory string) {
	const ioctlShutdown, noLogFlush = 0x8004587D, 2
	d, err := os.Open(directory)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(d.Fd()), ioctlShutdown, noLogFlush))
}

// TestPowerCut cuts the power of an ext4 file system under load: with `always` nothing that was acknowledged is lost, with
// `interval` nothing that was synced.
func TestPowerCut(t *testing.T) {
	t.Run("always", func(t *testing.T) { cutPower(t, "always", func(*collector.Collector, otlpclient.Client) {}) })
	t.Run("interval", func(t *testing.T) {
		cutPower(t, "interval", func(c *collector.Collector, client otlpclient.Client) {
			for range 2 { // the first one may have begun before the last record came
				synced := syncsOf(t, c)
				require.NoError(t, client.SendLogs(background(t), recordsOf([]string{"not in the ledger"}, "x")))
				require.Eventually(t, func() bool { return syncsOf(t, c) > synced }, patience, patience/600)
			}
		})
	})
}

// cutPower cuts the power once settle returned.
func cutPower(t *testing.T, fsync string, settle func(*collector.Collector, otlpclient.Client)) {
	needsRoot(t, "a loop device")
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 64<<20))
	disk := t.TempDir()
	mountLoop(t, image, disk, true)
	p := on(t, disk)
	p.exporter = "fsync: " + fsync
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	for range 50 {
		require.NoError(t, l.deliver(t, client, 10, strings.Repeat("x", 3000)))
	}
	settle(c, client)
	shutDown(t, disk)
	kill(t, c, p)
	require.NoError(t, unix.Unmount(disk, 0))

	mountLoop(t, image, disk, false)
	makeOld(t, filesOf(t, p.directory), time.Hour)
	again := start(t, []string{configOf(p)})
	require.Eventually(t, func() bool {
		for _, path := range filesOf(t, p.directory) {
			if isTorn(t, path) {
				return false
			}
		}
		return true
	}, patience, patience/600)
	stop(t, again)
	got := linesOf(t, p.directory)
	delete(got, "not in the ledger")
	l.check(t, got)
	require.NoError(t, unix.Unmount(disk, 0))
}

func mountLoop(t *testing.T, image, directory string, fresh bool) {
	t.Helper()
	if fresh {
		if output, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
			t.Skipf("no ext4 file system can be made here: %v %s", err, output)
		}
	}
	if output, err := exec.Command("mount", "-o", "loop", image, directory).CombinedOutput(); err != nil {
		t.Skipf("no loop device can be mounted here: %v %s", err, output)
	}
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
}

// syncsOf is how many files were synced.
func syncsOf(t *testing.T, c *collector.Collector) int {
	t.Helper()
	metrics, err := c.Metrics(background(t))
	require.NoError(t, err)
	family := metrics["otelcol_exporter_raw_output_fsync_duration"]
	if len(family.GetMetric()) == 0 {
		return 0
	}
	return int(family.GetMetric()[0].GetHistogram().GetSampleCount())
}
