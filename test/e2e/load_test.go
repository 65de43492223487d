package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// What TestFourSenders sends.
const (
	senders         = 4
	outputsASender  = 500
	chunksAnOutput  = 100
	chunksABatch    = 200
	nanosPerEvent   = 1000
	streamStartedAt = 1793769153123456000
)

// TestFourSenders sends 200,000 chunks of 2,000 outputs, interleaved, through four senders at once, and expects each output
// once, with its text and its ids.
func TestFourSenders(t *testing.T) {
	for _, signal := range []string{"logs", "traces"} {
		t.Run(signal, func(t *testing.T) { fourSenders(t, signal) })
	}
}

func fourSenders(t *testing.T, signal string) {
	p := onePipeline(t, signal)
	c := start(t, []string{configOf(p)})
	var wg sync.WaitGroup
	errs := make([]error, senders)
	for i := range senders {
		client := dial(t, p.socket)
		wg.Go(func() {
			_, errs[i] = replay.Send(background(t), client, replay.Records(interleaved(i, outputsASender), replay.Options{Form: replay.Single, FullText: replay.NoChunk}),
				replay.Plan{Signal: replay.Signal(signal), BatchSize: chunksABatch, Timeout: patience, Resource: map[string]string{"service.name": "load"}})
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	assert.Equal(t, senders*outputsASender*chunksAnOutput, sum(t, c, chunks, "outcome", "accepted"))
	assert.Equal(t, 0, sum(t, c, chunks, "outcome", "malformed"))
	assert.Equal(t, senders*outputsASender, sum(t, c, records, "end_reason", "finished"))
	assert.Equal(t, senders*outputsASender, sum(t, c, records))
	assert.Equal(t, senders*outputsASender, sum(t, c, writtenRecords))
	assert.Equal(t, 0, sum(t, c, droppedRecords)+sum(t, c, skippedRecords)+sum(t, c, pendingOutputs)+sum(t, c, pendingBytes))
	stop(t, c)

	files, err := conformance.Files(p.directory)
	require.NoError(t, err)
	checkLoad(t, strings.Join(slicesOf(files), ""))
}

func slicesOf(files map[string]string) (contents []string) {
	for content := range maps.Values(files) {
		contents = append(contents, content)
	}
	return contents
}

// interleaved is the stream of one sender, with that many outputs in flight: chunk 0 of each of them, then chunk 1 of each,
// and so on, and then the next outputs.
func interleaved(sender, inFlight int) []replay.Event {
	events := make([]replay.Event, 0, outputsASender*chunksAnOutput)
	for first := 0; first < outputsASender; first += inFlight {
		for i := range chunksAnOutput {
			for output := first; output < first+inFlight; output++ {
				events = append(events, replay.Event{
					Type: replay.TypeChunk, Time: streamStartedAt + uint64(len(events))*nanosPerEvent,
					RequestID: requestOf(sender, output), TextDiff: textOf(sender, output, i), TokenIDsDiff: []uint32{uint32(output), uint32(i)},
					IsFinal: i == chunksAnOutput-1, Streaming: true,
				})
			}
		}
	}
	return events
}

func requestOf(sender, output int) replay.ID {
	return replay.ID(fmt.Sprint(sender*outputsASender + output))
}

func textOf(sender, output, i int) replay.Text {
	return replay.Text(fmt.Sprintf("%d/%d/%d ", sender, output, i))
}

func checkLoad(t *testing.T, content string) {
	seen := map[string]bool{}
	for line := range strings.Lines(content) {
		r := parseLine(t, line)
		require.False(t, seen[r.RequestID], "request %s is there twice", r.RequestID)
		seen[r.RequestID] = true
		frames := framesOf(t, r.RequestID)
		require.Equal(t, frames, r.Frames)
		require.Equal(t, strings.Join(frames, ""), r.Text)
		require.Equal(t, idsOf(t, r.RequestID), r.TokenIDs)
		require.False(t, r.Partial)
		require.True(t, r.Adds)
	}
	assert.Len(t, seen, senders*outputsASender)
}

// line is what tests look at of a line.
type line struct {
	RequestID string   `json:"request_id"`
	Text      string   `json:"text"`
	Frames    []string `json:"frames"`
	TokenIDs  []int    `json:"token_ids"`
	Partial   bool     `json:"partial"`
	Adds      bool     `json:"frames_consistent"`
}

func parseLine(t *testing.T, text string) (l line) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &l))
	return l
}

// framesOf are those of a request of interleaved, and idsOf its token ids.
func framesOf(t *testing.T, request string) (frames []string) {
	sender, output := placeOf(t, request)
	for i := range chunksAnOutput {
		frames = append(frames, string(textOf(sender, output, i)))
	}
	return frames
}

func idsOf(t *testing.T, request string) (ids []int) {
	_, output := placeOf(t, request)
	for i := range chunksAnOutput {
		ids = append(ids, output, i)
	}
	return ids
}

func placeOf(t *testing.T, request string) (sender, output int) {
	t.Helper()
	id, err := strconv.Atoi(request)
	require.NoError(t, err)
	return id / outputsASender, id % outputsASender
}

// TestTwoSourcesWithTheSameIDs interleaves two servers that count their requests alike.
func TestTwoSourcesWithTheSameIDs(t *testing.T) {
	p := onePipeline(t, "logs")
	c := start(t, []string{configOf(p)})
	const requests = 50
	for i := range 3 {
		for _, server := range []string{"a", "b"} {
			var events []replay.Event
			for request := range requests {
				events = append(events, replay.Event{
					Type: replay.TypeChunk, Time: streamStartedAt, RequestID: requestOf(0, request),
					TextDiff: replay.Text(fmt.Sprintf("%s%d.%d ", server, request, i)), IsFinal: i == 2,
				})
			}
			send(t, p, events, map[string]string{"service.name": "server", "service.instance.id": server})
		}
	}
	stop(t, c)
	files, err := conformance.Files(p.directory)
	require.NoError(t, err)
	content := files[theHour]
	assert.Equal(t, 2*requests, strings.Count(content, "\n"))
	for request := range requests {
		for _, server := range []string{"a", "b"} {
			assert.Contains(t, content, fmt.Sprintf(`"frames":["%[1]s%[2]d.0 ","%[1]s%[2]d.1 ","%[1]s%[2]d.2 "]`, server, request))
		}
	}
}
