package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// TestLargeRecord sends a record of 60 MB, and one that is larger than what is allowed.
func TestLargeRecord(t *testing.T) {
	p := onePipeline(t, "logs")
	p.exporter = "max_record_bytes: 60001000"
	c := start(t, []string{configOf(p)})
	client := dial(t, p.socket)
	text := strings.Repeat("0123456789", 6_000_000)
	require.NoError(t, client.SendLogs(background(t), recordsOf([]string{"large"}, text)))
	require.NoError(t, client.SendLogs(background(t), recordsOf([]string{"too large"}, text+strings.Repeat("x", 1000))))
	require.NoError(t, client.SendLogs(background(t), recordsOf([]string{"small"}, "x")))
	assert.Equal(t, 2, sum(t, c, writtenRecords))
	assert.Equal(t, 1, sum(t, c, droppedRecords, "reason", "too_large"))
	stop(t, c)
	assert.Equal(t, map[string]int{"large": 1, "small": 1}, linesOf(t, p.directory))
}

// TestManySmallRecords sends a million of them in the long run.
func TestManySmallRecords(t *testing.T) {
	p := onePipeline(t, "logs")
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	for range rounds(10, 100) {
		require.NoError(t, l.deliver(t, client, 10_000, "x"))
	}
	assert.Equal(t, l.sent, sum(t, c, writtenRecords))
	stop(t, c)
	got := linesOf(t, p.directory)
	assert.Len(t, got, l.sent)
	l.check(t, got)
}

// hoursApart gives each record of a batch an hour of its own.
func hoursApart(logs plog.Logs) plog.Logs {
	for i, r := range logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
		r.SetTimestamp(pcommon.Timestamp(i) * 3600e9)
	}
	return logs
}

// TestManyHours sends 10,000 hours in one batch: few files are open, and all are written.
func TestManyHours(t *testing.T) {
	p := onePipeline(t, "logs")
	c := start(t, []string{configOf(p)})
	l := newLedger()
	require.NoError(t, dial(t, p.socket).SendLogs(background(t), hoursApart(recordsOf(l.next(10_000), "x"))))
	assert.Equal(t, 10_000, sum(t, c, writtenRecords))
	assert.LessOrEqual(t, sum(t, c, "otelcol_exporter_raw_output_open_files"), 16)
	checkResources(t, c.PID())
	stop(t, c)
	assert.Len(t, filesOf(t, p.directory), 10_000)
}

// checkResources expects few descriptors, and bounded memory at the peak, where the system tells.
func checkResources(t *testing.T, pid int) {
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Logf("descriptors and memory are not looked at: %v", err)
		return
	}
	assert.Less(t, len(descriptors), 100)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(status), "VmHWM:")
	require.True(t, ok)
	var kilobytes int
	_, err = fmt.Sscan(after, &kilobytes)
	require.NoError(t, err)
	assert.Less(t, kilobytes, 400_000)
}

// TestHourOfWriting sends the same, where the senders' clocks are not trusted.
func TestHourOfWriting(t *testing.T) {
	p := onePipeline(t, "logs")
	p.exporter = "hour: written"
	c := start(t, []string{configOf(p)})
	before := time.Now().UTC()
	require.NoError(t, dial(t, p.socket).SendLogs(background(t), hoursApart(recordsOf(newLedger().next(1000), "x"))))
	stop(t, c)
	files := filesOf(t, p.directory)
	require.Len(t, files, 1)
	assert.Contains(t, []string{before.Format("2006-01-02T15"), time.Now().UTC().Format("2006-01-02T15")}, filepath.Base(filepath.Dir(files[0])))
}

// TestOriginalHook lets the original hook, which takes no lock, write beside the Collector: in a file of the same name.
func TestOriginalHook(t *testing.T) {
	p := onePipeline(t, "logs")
	p.exporter = "pid: source, compression: zstd, retention: {max_age: 1m}"
	hooks := filepath.Join(p.directory, theHour, "raw-77.jsonl")
	require.NoError(t, os.MkdirAll(filepath.Dir(hooks), 0o750))
	hook, err := os.OpenFile(hooks, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	require.NoError(t, err)
	defer hook.Close()
	old := filepath.Join(p.directory, theHour, "raw-78.jsonl")
	require.NoError(t, os.WriteFile(old, []byte("of a hook that is gone\n"), 0o640))
	makeOld(t, []string{old}, 1000*time.Hour)

	_, err = hook.WriteString(`{"event":"raw_output","request_`)
	require.NoError(t, err)
	c := start(t, []string{configOf(p)})
	client := dial(t, p.socket)
	batch := recordsOf([]string{"ours"}, "x")
	batch.ResourceLogs().At(0).Resource().Attributes().PutInt("process.pid", 77)
	require.NoError(t, client.SendLogs(background(t), batch))
	_, err = hook.WriteString("id\":\"the hook's\"}\n")
	require.NoError(t, err)
	stop(t, c)

	assert.FileExists(t, old, "what we did not write is not touched")
	require.NoError(t, os.Remove(old))
	files := filesOf(t, p.directory)
	require.Len(t, files, 2)
	assert.Regexp(t, `/raw-77-[a-z2-7]{13}\.jsonl$`, files[0])
	assert.Equal(t, map[string]int{"ours": 1, "the hook's": 1}, linesOf(t, p.directory))
	assert.Contains(t, c.Log(), "A raw-output file got a suffix")
}

// TestTwoExportersOfOneDirectory lets two exporters write to one directory at once: they share its file. If they would make
// files that differ, the Collector does not start.
func TestTwoExportersOfOneDirectory(t *testing.T) {
	first, second := onePipeline(t, "logs"), onePipeline(t, "traces")
	second.id, second.directory = "2", first.directory
	c := start(t, []string{configOf(first, second)})
	send(t, first, finished("first", 50), aServer)
	send(t, second, finished("second", 50), aServer)
	send(t, first, finished("third", 50), aServer)
	assert.Equal(t, 150, sum(t, c, writtenRecords))
	assert.Equal(t, 1, sum(t, c, "otelcol_exporter_raw_output_open_files"))
	stop(t, c)
	assert.Len(t, filesOf(t, first.directory), 1)
	assert.Len(t, linesOf(t, first.directory), 150)

	second.exporter = `file_permissions: "0600"`
	output, err := exec.CommandContext(background(t), builtPath(t, collectorVariable), "--config="+configOf(first, second)).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "it must not start")
	assert.Contains(t, string(output), "another raw_output exporter writes there with other permissions")
}

// TestCompression compresses the files of an hour that is over, for others to read, and removes them when they are old.
func TestCompression(t *testing.T) {
	p := onePipeline(t, "logs")
	first := start(t, []string{configOf(p)})
	l := newLedger()
	require.NoError(t, l.deliver(t, dial(t, p.socket), 1000, "what the model said"))
	stop(t, first)
	files := filesOf(t, p.directory)
	require.Len(t, files, 1)
	lines, err := os.ReadFile(files[0])
	require.NoError(t, err)
	makeOld(t, files, 3*time.Hour)

	p.exporter = "compression: zstd"
	second := start(t, []string{configOf(p)})
	compressed := files[0] + ".zst"
	require.Eventually(t, func() bool {
		_, errLines := os.Stat(files[0])
		_, errCompressed := os.Stat(compressed)
		return os.IsNotExist(errLines) && errCompressed == nil
	}, patience, patience/600, second.Log())
	stop(t, second)
	if output, err := exec.Command("zstd", "-dc", compressed).Output(); err == nil {
		assert.Equal(t, string(lines), string(output))
	} else {
		t.Logf("zstd itself is not asked: %v", err)
	}

	p.exporter = "retention: {max_age: 1h}"
	third := start(t, []string{configOf(p)})
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Dir(compressed))
		return os.IsNotExist(err)
	}, patience, patience/600, third.Log())
	stop(t, third)
}

// TestRetryOnStart starts with a directory that can't be made yet.
func TestRetryOnStart(t *testing.T) {
	p := onePipeline(t, "logs")
	obstacle := filepath.Join(filepath.Dir(p.directory), "volume")
	p.directory = filepath.Join(obstacle, "out")
	p.exporter = "retry_on_start: true, retry_on_failure: {enabled: false}"
	require.NoError(t, os.WriteFile(obstacle, nil, 0o600))
	c := start(t, []string{configOf(p)})
	l, client := newLedger(), dial(t, p.socket)
	require.NoError(t, l.deliver(t, client, 3, "x"))
	assert.Equal(t, 3, sum(t, c, droppedRecords, "reason", "io_error"))
	require.NoError(t, os.Remove(obstacle))
	require.NoError(t, l.deliver(t, client, 3, "x"))
	assert.Equal(t, 3, sum(t, c, writtenRecords))
	stop(t, c)
	assert.Len(t, linesOf(t, p.directory), 3)
}
