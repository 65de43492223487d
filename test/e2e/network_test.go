package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/collector"
	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// numbered are the options of streams that may come in any order.
var numbered = replay.Options{Form: replay.Single, FullText: replay.EveryChunk, Numbered: true}

func anyOrderCases(t *testing.T) []conformance.Case {
	t.Helper()
	cases, err := conformance.LoadAnyOrder("../../testdata/conformance")
	require.NoError(t, err)
	return cases
}

// pipelines returns n pipelines of one signal.
func pipelines(t *testing.T, signal string, n int, processor string) (all []pipeline) {
	t.Helper()
	sockets, directories := filepath.Dir(socket(t)), t.TempDir()
	for i := range n {
		id := fmt.Sprintf("%s-%d", signal, i)
		all = append(all, pipeline{
			id: id, signal: signal, socket: filepath.Join(sockets, id), directory: filepath.Join(directories, id), processor: processor,
		})
	}
	return all
}

// sendFive sends records, five a batch.
func sendFive(t *testing.T, p pipeline, records []replay.Record) {
	t.Helper()
	_, err := replay.Send(background(t), dial(t, p.socket), records, replay.Plan{
		Signal: replay.Signal(p.signal), BatchSize: 5, Timeout: patience, Resource: aServer,
	})
	require.NoError(t, err)
}

func linesIn(t *testing.T, directory string) []string {
	t.Helper()
	files, err := conformance.Files(directory)
	require.NoError(t, err)
	return conformance.Lines(files)
}

// TestNetwork sends the conformance cases that know no eviction and no reused id, numbered, in disorder and partly twice, and
// expects the lines of the original hook.
func TestNetwork(t *testing.T) {
	cases := anyOrderCases(t)
	for _, signal := range []string{"logs", "traces"} {
		t.Run(signal, func(t *testing.T) {
			all := pipelines(t, signal, len(cases), "max_pending: 100000")
			c := start(t, []string{configOf(all...)})
			for i, p := range all {
				sendFive(t, p, conformance.Network(replay.Records(cases[i].Events, numbered), uint64(i)))
			}
			assert.Equal(t, 0, sum(t, c, chunks, "outcome", "conflicting"))
			assert.Positive(t, sum(t, c, chunks, "outcome", "duplicate"))
			assert.Positive(t, sum(t, c, chunks, "outcome", "late"))
			stop(t, c)
			for i, p := range all {
				assert.Equal(t, conformance.Lines(cases[i].Files), conformance.WithoutShutdownLines(linesIn(t, p.directory)), cases[i].Name)
			}
		})
	}
}

// TestLoss loses one chunk of each case, and expects that exactly its output says so, after the timeout and not before the end.
func TestLoss(t *testing.T) {
	cases := slices.DeleteFunc(anyOrderCases(t), func(c conformance.Case) bool { return len(c.Losable()) == 0 })
	for _, signal := range []string{"logs", "traces"} {
		t.Run(signal, func(t *testing.T) {
			all := pipelines(t, signal, len(cases), "max_pending: 100000, gap_timeout: 100ms")
			c := start(t, []string{configOf(all...)})
			want, lost := 0, make([]replay.Event, len(cases))
			for i, p := range all {
				places := cases[i].Losable()
				place := places[i*7919%len(places)] // any
				lost[i] = cases[i].Events[place]
				records := replay.Records(cases[i].Events, numbered)
				sendFive(t, p, conformance.Network(slices.Delete(records, place, place+1), uint64(i)))
				want += len(conformance.Lines(cases[i].Files))
			}
			require.Eventually(t, func() bool { return sum(t, c, writtenRecords) >= want }, patience, 10*time.Millisecond,
				"outputs that lack a chunk are written while the Collector runs")
			stop(t, c)
			for i, p := range all {
				assert.NoError(t, cases[i].CheckLoss(lost[i], linesIn(t, p.directory)), cases[i].Name)
			}
		})
	}
}

// forwarding is the configuration of a Collector that reorders what it sends on.
const forwarding = `yaml:
receivers:
  otlp: {protocols: {grpc: {endpoint: %s, transport: unix}}}
exporters:
  otlp:
    endpoint: unix://%s
    tls: {insecure: true}
    timeout: 5s
    sending_queue: {num_consumers: 10, queue_size: 100000, block_on_overflow: true}
    retry_on_failure: {initial_interval: 50ms, max_interval: 200ms, max_elapsed_time: 0}
service:
  pipelines:
    logs: {receivers: [otlp], exporters: [otlp]}
`

// TestChain has a Collector with ten consumers of its queue before ours, which is restarted under load. The one resends what
// the other may have taken, and reorders everything. Each record is right, or says that it is not; and no chunk is lost.
func TestChain(t *testing.T) {
	p := onePipeline(t, "logs")
	second := start(t, []string{configOf(p)})
	before := socket(t)
	first := start(t, []string{fmt.Sprintf(forwarding, before, p.socket)})

	sent := make(chan error, senders)
	for i := range senders {
		client := dial(t, before)
		go func() {
			records := replay.Records(interleaved(i, outputsASender/10), replay.Options{Form: replay.Single, FullText: replay.NoChunk, Numbered: true})
			_, err := replay.Send(background(t), client, records, replay.Plan{
				Signal: replay.AsLogs, BatchSize: chunksABatch, Timeout: patience, Resource: aServer,
			})
			sent <- err
		}()
	}
	require.Eventually(t, func() bool { return sum(t, second, chunks) > senders*outputsASender*chunksAnOutput/3 }, patience, time.Millisecond)
	stop(t, second)
	second = start(t, []string{configOf(p)})
	for range senders {
		require.NoError(t, <-sent)
	}
	awaitEmptyQueue(t, first)
	stop(t, first)
	stop(t, second)
	checkChain(t, p.directory)
}

func awaitEmptyQueue(t *testing.T, c *collector.Collector) {
	t.Helper()
	require.Eventually(t, func() bool {
		return sum(t, c, "otelcol_exporter_sent_log_records") == senders*outputsASender*chunksAnOutput
	}, patience, 10*time.Millisecond)
}

func checkChain(t *testing.T, directory string) {
	came := map[string]map[string]bool{} // the frames of each request
	whole, marked := 0, 0
	for text := range strings.Lines(content(t, directory)) {
		r := parseLine(t, text)
		if came[r.RequestID] == nil {
			came[r.RequestID] = map[string]bool{}
		}
		for _, frame := range r.Frames {
			came[r.RequestID][frame] = true
		}
		if r.Partial {
			marked++
			continue
		}
		whole++
		require.Equal(t, framesOf(t, r.RequestID), r.Frames)
		require.True(t, r.Adds)
	}
	t.Logf("%d records are whole, %d say that they are not", whole, marked)
	assert.Positive(t, whole)
	assert.Positive(t, marked, "of the outputs that were in flight at the restart")
	require.Len(t, came, senders*outputsASender)
	for request, frames := range came {
		require.Len(t, frames, chunksAnOutput, "no chunk of request %s is lost", request)
	}
}
