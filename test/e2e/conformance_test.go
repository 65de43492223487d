package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// TestConformance sends every case through the built Collector, in every way that must make no difference, and expects the
// original hook's bytes. One Collector a case has a pipeline for each way. Of logs and of spans, the records of the one are
// packed.
func TestConformance(t *testing.T) {
	cases, err := conformance.Load("../../testdata/conformance")
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { conform(t, c) })
	}
}

func conform(t *testing.T, c conformance.Case) {
	variants, err := c.Variants()
	require.NoError(t, err)
	sockets, directories := filepath.Dir(socket(t)), t.TempDir()
	var pipelines []pipeline
	for i := range variants {
		for _, signal := range []replay.Signal{replay.AsLogs, replay.AsTraces} {
			id := fmt.Sprintf("%s-%d", signal, i)
			packed := (i%2 == 0) == (signal == replay.AsLogs)
			pipelines = append(pipelines, pipeline{
				id: id, signal: string(signal), socket: filepath.Join(sockets, id),
				directory: filepath.Join(directories, id), processor: fmt.Sprintf("max_pending: %d, packed_records: %t", c.MaxPending, packed),
			})
		}
	}
	collector := start(t, []string{configOf(pipelines...)})
	for i, p := range pipelines {
		v := variants[i/2]
		size := v.BatchSize
		if size == 0 {
			size = len(c.Events)
		}
		_, err := replay.Send(background(t), dial(t, p.socket), replay.Records(c.Events, v.Options), replay.Plan{
			Signal: replay.Signal(p.signal), BatchSize: size, Timeout: time.Minute,
			Resource: map[string]string{"service.name": "conformance"},
		})
		require.NoError(t, err)
	}
	stop(t, collector)
	for i, p := range pipelines {
		files, err := conformance.Files(p.directory)
		require.NoError(t, err)
		got, left := conformance.WithoutShutdown(files)
		assert.Equal(t, c.Files, got, "%s as %s", variants[i/2].Name, p.signal)
		assert.LessOrEqual(t, left, c.LeftInFlight)
	}
}
