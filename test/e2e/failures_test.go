package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// theHour is the hour that the events of finished end in.
const theHour = "2026-11-04T05"

// aServer is the resource of the events.
var aServer = map[string]string{"service.name": "server", "service.instance.id": "1"}

// finished returns n outputs of one chunk each.
func finished(prefix string, n int) []replay.Event {
	events := make([]replay.Event, n)
	for i := range events {
		events[i] = replay.Event{
			Type: replay.TypeChunk, Time: 1793769153123456000, RequestID: replay.ID(fmt.Sprintf("%q", fmt.Sprintf("%s-%d", prefix, i))),
			TextDiff: "hello", Text: "hello", TokenIDsDiff: []uint32{1, 2}, IsFinal: true, Streaming: true,
		}
	}
	return events
}

// send sends events, 10 a batch, and requires that all are taken.
func send(t *testing.T, p pipeline, events []replay.Event, resource map[string]string) {
	t.Helper()
	require.NoError(t, trySend(t, dial(t, p.socket), p, events, resource))
}

func trySend(t *testing.T, client otlpclient.Client, p pipeline, events []replay.Event, resource map[string]string) error {
	records := replay.Records(events, replay.Options{Form: replay.Single, FullText: replay.EveryChunk})
	_, err := replay.Send(background(t), client, records, replay.Plan{
		Signal: replay.Signal(p.signal), BatchSize: 10, Timeout: patience, Resource: resource,
	})
	return err
}

// A directory that becomes unwritable while the Collector runs: no sender fails, what is lost is counted, and it goes on
// once the obstacle is gone.
func TestObstacleInTheHoursPlace(t *testing.T) {
	p := onePipeline(t, "logs")
	p.exporter = "retry_on_failure: {max_elapsed_time: 600ms}"
	c := start(t, []string{configOf(p)})
	send(t, p, finished("before", 10), aServer)
	hour := filepath.Join(p.directory, theHour)
	require.NoError(t, os.Rename(hour, hour+"-away"))
	require.NoError(t, os.WriteFile(hour, nil, 0o600))

	moved := 0 // records that still went to the file that was moved: it is noticed within a second
	require.Eventually(t, func() bool {
		send(t, p, finished("moved", 1), aServer)
		moved = sum(t, c, writtenRecords) - 10
		return sum(t, c, droppedRecords) == 1
	}, patience, patience/600)
	send(t, p, finished("during", 29), aServer)
	assert.Equal(t, 10+moved, sum(t, c, writtenRecords))
	assert.Equal(t, 30, sum(t, c, droppedRecords, "reason", "io_error"))
	assert.Equal(t, 30, sum(t, c, droppedRecords))
	assert.Equal(t, 1, strings.Count(c.Log(), "Raw-output records were dropped"), c.Log())

	require.NoError(t, os.Remove(hour))
	send(t, p, finished("after", 10), aServer)
	assert.Equal(t, 20+moved, sum(t, c, writtenRecords))
	assert.Equal(t, 30, sum(t, c, droppedRecords))
	stop(t, c)
	files, err := conformance.Files(p.directory)
	require.NoError(t, err)
	assert.Equal(t, 10, strings.Count(files[theHour], `"request_id":"after-`))
	assert.Equal(t, 10, strings.Count(files[theHour+"-away"], `"request_id":"before-`))
	assert.NotContains(t, c.Log(), "hello", "model output must not be logged")
}

// The whole directory may go away too.
func TestDirectoryRemoved(t *testing.T) {
	p := onePipeline(t, "traces")
	c := start(t, []string{configOf(p)})
	send(t, p, finished("before", 10), aServer)
	require.NoError(t, os.RemoveAll(p.directory))
	send(t, p, finished("after", 10), aServer)
	assert.Equal(t, 20, sum(t, c, writtenRecords))
	assert.Equal(t, 0, sum(t, c, droppedRecords))
	stop(t, c)
}

// A retry that is under way writes when the obstacle goes: nothing is lost, and the sender only waits.
func TestObstacleThatGoesInTime(t *testing.T) {
	p := onePipeline(t, "logs")
	c := start(t, []string{configOf(p)})
	hour := filepath.Join(p.directory, theHour)
	require.NoError(t, os.WriteFile(hour, nil, 0o600))
	client, sent := dial(t, p.socket), make(chan error)
	go func() { sent <- trySend(t, client, p, finished("waits", 10), aServer) }()
	require.Eventually(t, func() bool { return sum(t, c, pendingOutputs) == 0 && sum(t, c, chunks, "outcome", "accepted") == 10 },
		patience, patience/6000)
	require.NoError(t, os.Remove(hour))
	require.NoError(t, <-sent)
	assert.Equal(t, 10, sum(t, c, writtenRecords))
	assert.Equal(t, 0, sum(t, c, droppedRecords))
	stop(t, c)
}

func TestEmptyDirectorySwitchesOff(t *testing.T) {
	p := onePipeline(t, "logs")
	p.directory = ""
	c := start(t, []string{configOf(p)})
	send(t, p, finished("nowhere", 30), aServer)
	assert.Equal(t, 30, sum(t, c, records, "end_reason", "finished"))
	for _, metric := range []string{writtenRecords, writtenBytes, droppedRecords, skippedRecords} {
		assert.Equal(t, 0, sum(t, c, metric), metric)
	}
	stop(t, c)
	assert.Equal(t, 1, strings.Count(c.Log(), "\twarn\t"), c.Log())
	assert.Equal(t, 1, strings.Count(c.Log(), "is switched off and writes nothing"), c.Log())
}

func TestFilesAreNotForEverybody(t *testing.T) {
	p := onePipeline(t, "logs")
	c := start(t, []string{configOf(p)})
	send(t, p, finished("one", 1), aServer)
	stop(t, c)
	file := filepath.Join(p.directory, theHour, fmt.Sprintf("raw-%d.jsonl", c.PID()))
	for path, want := range map[string]os.FileMode{p.directory: 0o750, filepath.Dir(file): 0o750, file: 0o640} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), path)
	}
}

// Permissions may come from the environment, where a number of base 8 is a text.
func TestPermissionsFromTheEnvironment(t *testing.T) {
	p := onePipeline(t, "logs")
	p.exporter = `file_permissions: "${env:RAW_OUTPUT_FILE_PERMISSIONS}", directory_permissions: "${env:RAW_OUTPUT_NO_SUCH_VARIABLE:-0700}"`
	c := start(t, []string{configOf(p)}, "RAW_OUTPUT_FILE_PERMISSIONS=0600")
	send(t, p, finished("one", 1), aServer)
	stop(t, c)
	info, err := os.Stat(filepath.Join(p.directory, theHour, fmt.Sprintf("raw-%d.jsonl", c.PID())))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// What is in flight when the Collector is asked to stop is written, and says so.
func TestShutdownWritesWhatIsInFlight(t *testing.T) {
	p := onePipeline(t, "logs")
	c := start(t, []string{configOf(p)})
	events := finished("cut", 3)
	for i := range events {
		events[i].IsFinal = false
	}
	send(t, p, events, aServer)
	assert.Equal(t, 3, sum(t, c, pendingOutputs))
	assert.Positive(t, sum(t, c, pendingBytes))
	stop(t, c)
	matches, err := filepath.Glob(filepath.Join(p.directory, "*", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, matches, 1)
	content, err := os.ReadFile(matches[0])
	require.NoError(t, err)
	assert.Equal(t, 3, strings.Count(string(content), `"partial":true,"end_reason":"shutdown"`))
}
