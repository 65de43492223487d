package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
)

// run runs the tool and returns what it said and its exit status.
func run(t *testing.T, args ...string) (output string, status int) {
	cmd := exec.CommandContext(background(t), builtPath(t, toolVariable), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestReplay sends a case with the tool, over each protocol and as each signal.
func TestReplay(t *testing.T) {
	tool := builtPath(t, toolVariable)
	require.FileExists(t, tool)
	c := sampleCase(t)
	stream := filepath.Join(root, "testdata/conformance", c.Name, "events.jsonl")
	for _, protocol := range []string{"grpc", "http"} {
		for _, signal := range []string{"logs", "traces"} {
			t.Run(protocol+"/"+signal, func(t *testing.T) {
				directory := t.TempDir()
				endpoints := map[string]string{"grpc": freeAddress(t), "http": freeAddress(t)}
				collector := start(t, []string{
					filepath.Join(root, "examples/logs-and-spans.yaml"),
					at(grpcEndpoint, endpoints["grpc"]), at(httpEndpoint, endpoints["http"]),
				}, "TRTLLM_RAW_OUTPUT_DIR="+directory)
				output, status := run(t, "replay", "--endpoint", endpoints[protocol], "--protocol", protocol, "--signal", signal,
					"--batch-size", "4", "--speed", "100", stream)
				assert.Equal(t, "sent 10 of 10 events\n", output)
				assert.Equal(t, 0, status)
				stop(t, collector)
				files, err := conformance.Files(directory)
				require.NoError(t, err)
				assert.Equal(t, c.Files, files)
			})
		}
	}
}

// TestLoad has the tool generate outputs and verify what the Collector writes of them.
func TestLoad(t *testing.T) {
	for name, args := range map[string][]string{
		"one chunk a record":                          nil,
		"packed, two outputs a request, some aborted": {"--chunks-per-record", "20", "--n", "2", "--aborted", "0.1"},
		"a bad network":                               {"--copies", "0.3", "--disorder", "100", "--chunks-per-record", "3"},
		"spans over HTTP, at a pace":                  {"--signal", "traces", "--protocol", "http", "--rate", "100000"},
		"more senders than in flight":                 {"--senders", "8", "--in-flight", "3", "--outputs", "50"},
		"more in flight than there is":                {"--in-flight", "1000", "--outputs", "40"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			endpoints := map[string]string{"grpc": freeAddress(t), "http": freeAddress(t)}
			c := start(t, []string{
				filepath.Join(root, "examples/logs-and-spans.yaml"), at(grpcEndpoint, endpoints["grpc"]), at(httpEndpoint, endpoints["http"]),
			}, "TRTLLM_RAW_OUTPUT_DIR="+directory)
			protocol := "grpc"
			if slices.Contains(args, "http") {
				protocol = "http"
			}
			output, status := run(t, append([]string{"load", "--endpoint", endpoints[protocol], "--outputs", "300", "--chunks", "40", "--verify", directory}, args...)...)
			assert.Equal(t, 0, status, output)
			assert.Regexp(t, `(?s)^sent \d+ chunks in \d+ records and \d+ requests in .* s: \d+ chunks/s\n\d+ outputs are in .*, each once, with its exact text\n$`, output)
			assert.Equal(t, 0, sum(t, c, chunks, "outcome", "conflicting")+sum(t, c, chunks, "outcome", "malformed"))
			stop(t, c)
		})
	}
}

func TestLoadFails(t *testing.T) {
	directory := t.TempDir()
	for name, test := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"nobody listens":  {[]string{"--endpoint", freeAddress(t)}, 1, "sent 0 chunks"},
		"an argument":     {[]string{"file"}, 2, "unknown command"},
		"no outputs":      {[]string{"--outputs", "0"}, 2, "--outputs is 0: it must be at least 1"},
		"halves":          {[]string{"--outputs", "3", "--n", "2"}, 2, "--outputs is 3: it must be a multiple of --n, 2"},
		"too many copies": {[]string{"--copies", "1.5"}, 2, "--copies is 1.5: it must be 0 to 1"},
		"aborted is none": {[]string{"--aborted", "NaN"}, 2, "--aborted is NaN"},
		"backwards":       {[]string{"--rate", "-1"}, 2, "--rate is -1"},
		"unknown signal":  {[]string{"--signal", "metrics"}, 2, `--signal is "metrics"`},
	} {
		t.Run(name, func(t *testing.T) {
			output, status := run(t, append([]string{"load"}, test.args...)...)
			assert.Equal(t, test.status, status, output)
			assert.Contains(t, output, test.want)
		})
	}
	t.Run("not written there", func(t *testing.T) {
		p := onePipeline(t, "logs")
		start(t, []string{configOf(p)})
		output, status := run(t, "load", "--endpoint", "unix:"+p.socket, "--outputs", "10", "--chunks", "3",
			"--verify", directory, "--verify-timeout", "1ms")
		assert.Equal(t, 1, status)
		assert.Contains(t, output, "10 of 10 outputs are not there")
	})
}

func TestReplayFails(t *testing.T) {
	stream := filepath.Join(root, "testdata/sample.jsonl")
	for name, test := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"nobody listens":     {[]string{"--endpoint", freeAddress(t), stream}, 1, "sent 0 of 25 events"},
		"nobody at http":     {[]string{"--protocol", "http", "--endpoint", freeAddress(t), stream}, 1, "sent 0 of 25 events"},
		"no such file":       {[]string{"no-such-file"}, 2, "no-such-file"},
		"not a stream":       {[]string{filepath.Join(root, "go.mod")}, 2, "go.mod: line 1: "},
		"unknown signal":     {[]string{"--signal", "metrics", stream}, 2, `--signal is "metrics": it must be one of ["logs" "traces"]`},
		"empty batches":      {[]string{"--batch-size", "0", stream}, 2, "--batch-size is 0: it must be at least 1"},
		"no file":            {nil, 2, "accepts 1 arg"},
		"unknown flag":       {[]string{"--no-such-flag", stream}, 2, "--no-such-flag"},
		"backwards":          {[]string{"--speed", "-1", stream}, 2, "--speed is -1"},
		"speed is no number": {[]string{"--speed", "NaN", stream}, 2, "--speed is NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			output, status := run(t, append([]string{"replay"}, test.args...)...)
			assert.Equal(t, test.status, status, output)
			assert.Contains(t, output, test.want)
		})
	}
}
