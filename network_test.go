package rawoutput

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// numbered are ways to send a numbered stream.
var numbered = []replay.Options{
	{Form: replay.Single, FullText: replay.EveryChunk, Numbered: true},
	{Form: replay.Array, ChunksPerRecord: 3, FullText: replay.EveryChunk, Numbered: true},
	{Form: replay.Packed, ChunksPerRecord: 4, FullText: replay.EveryChunk, Numbered: true},
}

func anyOrderCases(t *testing.T) []conformance.Case {
	t.Helper()
	cases, err := conformance.LoadAnyOrder("testdata/conformance")
	require.NoError(t, err)
	return cases
}

// linesOf sends records through the processor into the exporter, five a batch, and returns the lines.
func linesOf(t *testing.T, signal string, records []replay.Record) []string {
	t.Helper()
	const unlimited = 1 << 20
	directory := t.TempDir()
	send, shutdown := pipelineOf(t, signal, unlimited, directory)
	for batch := range slices.Chunk(records, 5) {
		require.NoError(t, send(batch))
	}
	shutdown()
	files, err := conformance.Files(directory)
	require.NoError(t, err)
	return conformance.Lines(files)
}

// TestNetwork has every case that knows no eviction and no reused id come in disorder and partly twice, but numbered, and
// expects the lines of the original hook.
func TestNetwork(t *testing.T) {
	for _, c := range anyOrderCases(t) {
		for seed := range uint64(5) {
			for _, options := range numbered {
				for _, signal := range []string{"logs", "traces"} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", c.Name, options.Form, signal, seed), func(t *testing.T) {
						records := conformance.Network(replay.Records(c.Events, options), seed)
						assert.Equal(t, conformance.Lines(c.Files), conformance.WithoutShutdownLines(linesOf(t, signal, records)))
					})
				}
			}
		}
	}
}

// TestLoss loses each chunk that would be missed, one at a time: exactly its output says so, and no other line changes.
func TestLoss(t *testing.T) {
	for _, c := range anyOrderCases(t) {
		records := replay.Records(c.Events, numbered[0])
		places := c.Losable()
		if len(places) > 40 { // enough of them, all over the stream
			step := len(places)/40 + 1
			places = slices.Collect(func(yield func(int) bool) {
				for i := 0; i < len(places) && yield(places[i]); i += step {
				}
			})
		}
		for _, place := range places {
			t.Run(fmt.Sprintf("%s/%d", c.Name, place), func(t *testing.T) {
				left := slices.Delete(slices.Clone(records), place, place+1)
				assert.NoError(t, c.CheckLoss(c.Events[place], linesOf(t, "logs", left)))
			})
		}
	}
}
