package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
)

// pythonVariable is the environment variable with a Python that can run the emitter; empty where there is none.
const pythonVariable = "RAWOUTPUT_PYTHON"

// server is a Python server with the emitter's hook, a process of its own (emitter/python/tests/server.py).
type server struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers *bufio.Reader
	log     strings.Builder // of its standard error; good once it ended
}

// startServer starts a server that sends to an endpoint, and ends it with the test.
func startServer(t *testing.T, endpoint string, env ...string) *server {
	t.Helper()
	s := &server{t: t}
	s.cmd = exec.CommandContext(background(t), builtPath(t, pythonVariable), filepath.Join(root, "emitter/python/tests/server.py"))
	s.cmd.Env = append(s.cmd.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_SERVICE_NAME=server")
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = &s.log
	var err error
	s.stdin, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.answers = bufio.NewReader(stdout)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	return s
}

// do has the server do something and returns its answer.
func (s *server) do(what string, arguments map[string]any) json.RawMessage {
	s.t.Helper()
	command := map[string]any{"do": what}
	maps.Copy(command, arguments)
	line, err := json.Marshal(command)
	require.NoError(s.t, err)
	_, err = s.stdin.Write(append(line, '\n'))
	require.NoError(s.t, err)
	answer, err := s.answers.ReadBytes('\n')
	if err != nil {
		_ = s.cmd.Wait()
		require.NoError(s.t, err, s.log.String())
	}
	return answer
}

// flush waits until everything is delivered or given up.
func (s *server) flush() {
	s.t.Helper()
	require.JSONEq(s.t, "true", string(s.do("flush", map[string]any{"timeout": patience.Seconds()})))
}

func (s *server) generate(prefix string, outputs, chunks int) {
	s.t.Helper()
	s.do("generate", map[string]any{"prefix": prefix, "outputs": outputs, "chunks": chunks})
}

// report is what a server knows of its emitter.
type report struct {
	Calls, Dropped int
	HelperPID      int `json:"helper_pid"`
	MedianNS       int `json:"median_ns"`
	P999NS         int `json:"p999_ns"`
	Memory         int
}

func (s *server) report() (r report) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal(s.do("report", nil), &r))
	s.t.Logf("%d calls: median %d ns, 99.9th percentile %d ns; %d chunks dropped; %d MiB", r.Calls, r.MedianNS, r.P999NS, r.Dropped, r.Memory>>20)
	return r
}

// end ends the server, as its users do.
func (s *server) end() {
	s.t.Helper()
	require.NoError(s.t, s.stdin.Close())
	require.NoError(s.t, s.cmd.Wait(), s.log.String())
}

// overHTTP is a pipeline that receives over HTTP.
type overHTTP struct {
	id, address, directory string
	processor              string
}

func configOverHTTP(pipelines ...overHTTP) string {
	var receivers, processors, exporters, service strings.Builder
	for _, p := range pipelines {
		fmt.Fprintf(&receivers, "  otlp/%s: {protocols: {http: {endpoint: %s}}}\n", p.id, p.address)
		fmt.Fprintf(&processors, "  raw_output/%s: {%s}\n", p.id, p.processor)
		fmt.Fprintf(&exporters, "  raw_output/%s: {directory: %q}\n", p.id, p.directory)
		fmt.Fprintf(&service, "    logs/%s: {receivers: [otlp/%[1]s], processors: [raw_output/%[1]s], exporters: [raw_output/%[1]s]}\n", p.id)
	}
	return fmt.Sprintf("yaml:receivers:\n%sprocessors:\n%sexporters:\n%sservice:\n  pipelines:\n%s",
		&receivers, &processors, &exporters, &service)
}

func oneOverHTTP(t *testing.T) overHTTP {
	return overHTTP{id: "1", address: freeAddress(t), directory: filepath.Join(t.TempDir(), "out")}
}

// TestEmitterConformance plays every conformance stream through the hook, and expects the lines of the original hook, but for
// the times, which are now. Where nothing depends on the order of records, chunks are merged as always; else each goes alone.
func TestEmitterConformance(t *testing.T) {
	builtPath(t, pythonVariable)
	cases, err := conformance.Load("../../testdata/conformance")
	require.NoError(t, err)
	var all []overHTTP
	for _, c := range cases {
		p := oneOverHTTP(t)
		p.id, p.processor = c.Name, fmt.Sprintf("max_pending: %d", c.MaxPending)
		all = append(all, p)
	}
	collector := start(t, []string{configOverHTTP(all...)})
	for i, c := range cases {
		s := startServer(t, "http://"+all[i].address)
		path := filepath.Join(root, "testdata/conformance", c.Name, "events.jsonl")
		s.do("play", map[string]any{"path": path, "flush_each": !c.AnyOrder()})
		s.flush()
		assert.Zero(t, s.report().Dropped)
		s.end()
		assert.Empty(t, s.log.String())
	}
	assert.Equal(t, 0, sum(t, collector, chunks, "outcome", "conflicting")+sum(t, collector, chunks, "outcome", "malformed"))
	stop(t, collector)
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got := allLines(t, all[i].directory)
			if want := conformance.Lines(c.Files); !slices.ContainsFunc(want, isEvicted) {
				assert.Equal(t, withoutTimes(want), withoutTimes(conformance.WithoutShutdownLines(got)))
				return
			}
			want, came := generated(t, inOrder(c.Files)), generated(t, conformance.WithoutShutdownLines(got))
			outputs := len(came)
			maps.DeleteFunc(came, func(output string, _ []string) bool { return want[output] == nil })
			assert.Equal(t, want, came)
			assert.LessOrEqual(t, outputs-len(came), c.LeftInFlight, "of outputs that had not ended")
		})
	}
}

func isEvicted(line string) bool { return strings.Contains(line, `"end_reason":"evicted"`) }

func inOrder(files map[string]string) (lines []string) {
	for _, hour := range slices.Sorted(maps.Keys(files)) {
		lines = append(lines, slices.Collect(strings.Lines(files[hour]))...)
	}
	return lines
}

// generated returns what was generated for each output, all of its lines together. Where outputs are evicted, more cannot be
// expected of an emitter than that nothing is lost and nothing doubled: an evicted output has its full text and flags in
// records that may come later, and the text that comes before a request's end may itself evict another.
func generated(t *testing.T, lines []string) map[string][]string {
	outputs := map[string][]string{}
	for _, text := range lines {
		var line struct {
			RequestID   string `json:"request_id"`
			OutputIndex int    `json:"output_index"`
			Frames      []string
			TokenIDs    []int `json:"token_ids"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		output := fmt.Sprintf("%s/%d", line.RequestID, line.OutputIndex)
		outputs[output] = append(outputs[output], line.Frames...)
		for _, id := range line.TokenIDs {
			outputs[output] = append(outputs[output], fmt.Sprint(id))
		}
	}
	return outputs
}

func allLines(t *testing.T, directory string) []string {
	return slices.Collect(strings.Lines(content(t, directory)))
}

// aTime is a time in a line.
var aTime = regexp.MustCompile(`"(started|finished)_at":"[^"]*"`)

// withoutTimes returns lines without their times, sorted.
func withoutTimes(lines []string) (without []string) {
	for _, line := range lines {
		without = append(without, aTime.ReplaceAllString(line, `"${1}_at":""`))
	}
	slices.Sort(without)
	return without
}

// checkGenerated expects each output of a prefix once, whole and exact.
func checkGenerated(t *testing.T, directory, prefix string, outputs, chunks int) {
	t.Helper()
	seen := map[string]bool{}
	for _, text := range allLines(t, directory) {
		line := parseLine(t, text)
		if !strings.HasPrefix(line.RequestID, prefix+"-") {
			continue
		}
		require.False(t, seen[line.RequestID], "%s is there twice", line.RequestID)
		seen[line.RequestID] = true
		require.False(t, line.Partial, text)
		require.True(t, line.Adds, text)
		require.Len(t, line.Frames, chunks)
		for i, frame := range line.Frames {
			require.Equal(t, fmt.Sprintf("%s.%d ", line.RequestID, i), frame)
		}
	}
	require.Len(t, seen, outputs)
}

// TestEmitterOutage stops the Collector while servers generate, and starts it again: nothing is lost and nothing twice.
func TestEmitterOutage(t *testing.T) {
	p := oneOverHTTP(t)
	c := start(t, []string{configOverHTTP(p)})
	s := startServer(t, "http://"+p.address)
	s.generate("before", 20, 50)
	s.flush()
	stop(t, c)
	s.generate("during", 20, 50)
	c = start(t, []string{configOverHTTP(p)})
	s.generate("after", 20, 50)
	s.flush()
	assert.Zero(t, s.report().Dropped)
	s.end()
	stop(t, c)
	for _, when := range []string{"before", "during", "after"} {
		checkGenerated(t, p.directory, when, 20, 50)
	}
	assert.NotContains(t, s.log.String(), "during-", "model output must not be logged")
}

// TestEmitterHelperIsKilled kills the helper again and again while the server generates.
func TestEmitterHelperIsKilled(t *testing.T) {
	p := oneOverHTTP(t)
	c := start(t, []string{configOverHTTP(p)})
	s := startServer(t, "http://"+p.address)
	const rounds = 5
	for i := range rounds {
		s.generate(fmt.Sprint("round", i), 50, 100)
		if helper := s.report().HelperPID; helper != 0 { // else it is only being started
			process, err := os.FindProcess(helper)
			require.NoError(t, err)
			_ = process.Kill()
		}
	}
	s.flush()
	assert.Zero(t, s.report().Dropped)
	s.end()
	assert.Equal(t, 0, sum(t, c, chunks, "outcome", "conflicting"))
	stop(t, c)
	for i := range rounds {
		checkGenerated(t, p.directory, fmt.Sprint("round", i), 50, 100)
	}
}

// TestEmitterInTrouble has the server generate more than it may keep for receivers that take nothing: no call waits, memory is
// bounded, and what is dropped is counted.
func TestEmitterInTrouble(t *testing.T) {
	builtPath(t, pythonVariable)
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	over := make(chan struct{})
	defer close(over)
	hang := func(http.ResponseWriter, *http.Request) { <-over }
	garbage := func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = connection.Write([]byte("\x00\xffgarbage\r\n\r\n"))
			_ = connection.Close()
		}
	}
	for name, endpoint := range map[string]string{
		"unreachable": "http://" + freeAddress(t),
		"slow":        serve(t, httptest.NewServer(http.HandlerFunc(hang))),
		"429":         serve(t, httptest.NewServer(answer(http.StatusTooManyRequests))),
		"503":         serve(t, httptest.NewServer(answer(http.StatusServiceUnavailable))),
		"garbage":     serve(t, httptest.NewServer(http.HandlerFunc(garbage))),
		"TLS wrong":   serve(t, silentTLSServer(answer(http.StatusOK))),
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, endpoint)
			s.generate("quiet", 1, 1)
			before := s.report().Memory
			s.generate(strings.Repeat("loud-", 20), 150, 1000)
			r := s.report()
			assert.Equal(t, 150_001, r.Calls)
			assert.Positive(t, r.Dropped)
			assert.Less(t, r.Memory-before, 200<<20)
			s.end()
			assert.NotContains(t, s.log.String(), "loud-", "model output must not be logged")
		})
	}
}

// silentTLSServer is a server with a certificate that nobody trusts, and that does not log who does not.
func silentTLSServer(handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	return server
}

// serve ends a test's server with the test and returns its URL.
func serve(t *testing.T, server *httptest.Server) string {
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// TestEmitterRefused has a receiver refuse everything for good: the count is exact, and the Collector learns of it.
func TestEmitterRefused(t *testing.T) {
	p := oneOverHTTP(t)
	c := start(t, []string{configOverHTTP(p)})
	var refuses atomic.Bool
	target, err := url.Parse("http://" + p.address)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	endpoint := serve(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	})))
	s := startServer(t, endpoint)
	refuses.Store(true)
	s.generate("refused", 10, 30)
	s.flush()
	assert.Equal(t, 300, s.report().Dropped)
	refuses.Store(false)
	s.generate("taken", 10, 30)
	s.flush()
	s.end()
	assert.Equal(t, 300, sum(t, c, "otelcol_processor_raw_output_emitter_dropped_chunks"))
	stop(t, c)
	checkGenerated(t, p.directory, "taken", 10, 30)
}

// TestEmittersDoc sends the record that docs/emitters.md shows, as it is shown.
func TestEmittersDoc(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root, "docs/emitters.md"))
	require.NoError(t, err)
	record := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(doc)
	require.NotNil(t, record)
	p := oneOverHTTP(t)
	c := start(t, []string{configOverHTTP(p)})
	body := fmt.Sprintf(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[%s]}]}]}`, record[1])
	response, err := http.Post("http://"+p.address+"/v1/logs", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	stop(t, c)
	line := content(t, p.directory)
	assert.Contains(t, line, `"started_at":"2026-11-04T05:12:33.123456+00:00"`)
	assert.Contains(t, line, `"frames":["He","y"],"frames_consistent":false,"token_ids":[17176,1038]`, "the first chunk is missing")
}

// TestPythonInTheDocs runs the Python that the documents show, and expects what they show of it, the times aside.
func TestPythonInTheDocs(t *testing.T) {
	python := builtPath(t, pythonVariable)
	for document, showsOutput := range map[string]bool{"docs/tensorrt-llm.md": true, "emitter/python/README.md": false} {
		t.Run(document, func(t *testing.T) {
			doc, err := os.ReadFile(filepath.Join(root, document))
			require.NoError(t, err)
			block := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(doc)
			require.NotNil(t, block)
			p := oneOverHTTP(t)
			c := start(t, []string{configOverHTTP(p)})
			cmd := exec.CommandContext(background(t), python, "-c", string(block[1]))
			cmd.Env = append(cmd.Environ(), "PYTHONPATH="+filepath.Join(root, "emitter/python"), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+p.address)
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, string(output))
			stop(t, c)
			got := withoutTimes(allLines(t, p.directory))
			assert.NotEmpty(t, got)
			if showsOutput {
				assert.Contains(t, string(doc), "python first.py\n"+string(output))
				assert.Equal(t, withoutTimes(lineInDoc.FindAllString(string(doc), -1)), got)
			}
		})
	}
}

var lineInDoc = regexp.MustCompile(`(?m)^\{"event":"raw_output".*\n`)
