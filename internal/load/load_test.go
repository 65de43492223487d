package load

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
)

var shape = Shape{Run: "run", Outputs: 20, N: 2, Chunks: 7, ChunksPerRecord: 3, Aborted: 0.3}

// receiver keeps what comes.
type receiver struct {
	mu      sync.Mutex
	sources map[string]bool
	indexes map[string][]int64 // of the records of each output, in the order in which they came
	batches int
	refuse  bool
}

func (r *receiver) SendLogs(_ context.Context, logs plog.Logs) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse {
		return errors.New("no")
	}
	r.batches++
	resource := logs.ResourceLogs().At(0)
	source, _ := resource.Resource().Attributes().Get("service.instance.id")
	r.sources[source.Str()] = true
	for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
		id, _ := record.Attributes().Get(contract.RequestID)
		output, _ := record.Attributes().Get(contract.OutputIndex)
		index, _ := record.Attributes().Get(contract.ChunkIndex)
		key := id.Str() + "/" + output.AsString()
		r.indexes[key] = append(r.indexes[key], index.Int())
	}
	return nil
}

func (r *receiver) SendTraces(context.Context, ptrace.Traces) error { return errors.New("not here") }
func (r *receiver) Close() error                                    { return nil }

func planOf() Plan {
	return Plan{
		Shape: shape, Senders: 3, InFlight: 9, BatchSize: 4, Timeout: time.Minute,
		Resource: map[string]string{"service.name": "load"},
	}
}

func run(t *testing.T, plan Plan, r *receiver) (Result, error) {
	r.sources, r.indexes = map[string]bool{}, map[string][]int64{}
	return Run(t.Context(), plan, func() (otlpclient.Client, error) { return r, nil })
}

func TestRun(t *testing.T) {
	var r receiver
	result, err := run(t, planOf(), &r)
	require.NoError(t, err)
	assert.Equal(t, int64(20*7), result.Chunks)
	assert.Equal(t, int64(20*3), result.Records)
	assert.Equal(t, int64(r.batches), result.Requests)
	assert.Len(t, r.sources, 3)
	require.Len(t, r.indexes, 20)
	for output, indexes := range r.indexes {
		assert.Equal(t, []int64{0, 3, 6}, indexes, output)
	}
}

func TestCopiesAndDisorder(t *testing.T) {
	var r receiver
	plan := planOf()
	plan.Copies, plan.Disorder = 1, 30
	result, err := run(t, plan, &r)
	require.NoError(t, err)
	assert.Equal(t, int64(20*7), result.Chunks, "copies do not count")
	assert.Equal(t, int64(2*20*3), result.Records)
	disorder := 0
	for _, indexes := range r.indexes {
		assert.ElementsMatch(t, []int64{0, 0, 3, 3, 6, 6}, indexes)
		for i := range indexes[1:] {
			if indexes[i+1] < indexes[i] {
				disorder++
			}
		}
	}
	assert.Positive(t, disorder)
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		plan := planOf()
		plan.Rate = 14
		result, err := run(t, plan, &r)
		require.NoError(t, err)
		assert.InDelta(t, 10, result.Took.Seconds(), 1e-6)
	})
}

func TestRunStopsAtTheFirstRefusal(t *testing.T) {
	r := receiver{refuse: true}
	result, err := run(t, planOf(), &r)
	assert.ErrorContains(t, err, "after 0 chunks of one sender: no")
	assert.Zero(t, result.Chunks)
}

func TestAbortedAreSpread(t *testing.T) {
	s := Shape{Aborted: 0.25}
	var aborted []int
	for request := range 12 {
		if s.isAborted(request) {
			aborted = append(aborted, request)
		}
	}
	assert.Equal(t, []int{3, 7, 11}, aborted)
}

// linesOf returns the right line of each output.
func linesOf(s *Shape) (lines []line) {
	for output := range s.Outputs {
		at := s.place(output)
		l := line{RequestID: s.requestID(at.request), OutputIndex: at.index, Aborted: s.isAborted(at.request), Text: s.text(at), Consistent: true}
		for chunk := range s.Chunks {
			l.Frames = append(l.Frames, s.frame(at, chunk))
			l.TokenIDs = append(l.TokenIDs, s.tokenID(at, chunk))
		}
		lines = append(lines, l)
	}
	return lines
}

func write(t *testing.T, directory string, lines []line) {
	var content strings.Builder
	for _, l := range lines {
		text, err := json.Marshal(l)
		require.NoError(t, err)
		content.Write(append(text, '\n'))
	}
	hour := filepath.Join(directory, "2026-11-04T05")
	require.NoError(t, os.MkdirAll(hour, 0o750))
	file, err := os.OpenFile(filepath.Join(hour, "raw-1.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(content.String())
	require.NoError(t, errors.Join(err, file.Close()))
}

func TestVerify(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]line) []line
		want   string
	}{
		"right":            {func(l []line) []line { return l }, ""},
		"others beside":    {func(l []line) []line { return append(l, line{RequestID: "another-1"}) }, ""},
		"missing":          {func(l []line) []line { return append(l[:4:4], l[6:]...) }, "2 of 20 outputs are not there, the first is output 0 of request run-2"},
		"twice":            {func(l []line) []line { return append(l[:1:1], l...) }, "output 0 of request run-0 is there twice"},
		"never sent":       {func(l []line) []line { return append([]line{{RequestID: "run-10"}}, l...) }, "output 0 of request run-10 was not sent"},
		"another text":     {func(l []line) []line { l[3].Text += "x"; return l }, "output 1 of request run-1: its text is another"},
		"another frame":    {func(l []line) []line { l[3].Frames[2] = "x"; return l }, "its frames are others"},
		"inconsistent":     {func(l []line) []line { l[3].Consistent = false; return l }, "its frames are others"},
		"another token id": {func(l []line) []line { l[3].TokenIDs[2]++; return l }, "its token ids are others"},
		"partial":          {func(l []line) []line { l[3].Partial, l[3].EndReason = true, "evicted"; return l }, `it is partial, with the end reason "evicted" and 7 of 7 chunks`},
		"not aborted":      {func(l []line) []line { l[7].Aborted = false; return l }, "aborted is false"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			write(t, directory, test.change(linesOf(&shape)))
			over, cancel := context.WithCancel(t.Context())
			cancel()
			err := Verify(over, &shape, directory)
			if test.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestVerifyWaits(t *testing.T) {
	directory := t.TempDir()
	lines := linesOf(&shape)
	write(t, directory, lines[:5])
	done := make(chan error)
	go func() { done <- Verify(t.Context(), &shape, directory) }()
	write(t, directory, lines[5:])
	assert.NoError(t, <-done)
}
