// Package e2e tests the Collector that ocb built, from outside, as its users see it.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/collector"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
)

// The environment variables that `make test` sets: the paths of what it built.
const (
	collectorVariable = "RAWOUTPUT_COLLECTOR"
	toolVariable      = "RAWOUTPUT_TOOL"
)

// patience is how long anything may take; nothing is measured against it.
const patience = time.Minute

// builtPath returns the path in a variable, or skips the test where there is none: `go test ./...` builds no Collector.
func builtPath(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set; `make test` builds what it names and sets it", variable)
	}
	require.FileExists(t, path)
	return path
}

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start starts the built Collector with configurations as collector.Start takes them, and ends it with the test.
func start(t *testing.T, configs []string, env ...string) *collector.Collector {
	t.Helper()
	path := builtPath(t, collectorVariable)
	c, err := collector.Start(background(t), path, configs, env...)
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	return c
}

func stop(t *testing.T, c *collector.Collector) {
	t.Helper()
	require.NoError(t, c.Stop(background(t)), c.Log())
}

// socket returns the path of a unix socket: short, as such paths must be.
func socket(t *testing.T) string {
	directory, err := os.MkdirTemp("", "rawoutput")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(directory)) })
	return filepath.Join(directory, "otlp.sock")
}

// dial returns a client of the socket.
func dial(t *testing.T, socket string) otlpclient.Client {
	t.Helper()
	client, err := otlpclient.NewGRPC(otlpclient.Options{Endpoint: "unix:" + socket})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

// pipeline is a configuration of one or more independent pipelines, each from a socket of its own to a directory of its own.
type pipeline struct {
	id, signal, socket, directory string
	processor, exporter           string // further settings, in YAML flow style: max_pending: 3
}

func configOf(pipelines ...pipeline) string {
	var receivers, processors, exporters, service strings.Builder
	for _, p := range pipelines {
		fmt.Fprintf(&receivers, "  otlp/%s: {protocols: {grpc: {endpoint: %s, transport: unix, max_recv_msg_size_mib: 64}}}\n", p.id, p.socket)
		fmt.Fprintf(&processors, "  raw_output/%s: {%s}\n", p.id, p.processor)
		fmt.Fprintf(&exporters, "  raw_output/%s: {directory: %q, %s}\n", p.id, p.directory, p.exporter)
		fmt.Fprintf(&service, "    %s/%s: {receivers: [otlp/%s], processors: [raw_output/%[2]s], exporters: [raw_output/%[2]s]}\n",
			p.signal, p.id, p.id)
	}
	return fmt.Sprintf("yaml:receivers:\n%sprocessors:\n%sexporters:\n%sservice:\n  pipelines:\n%s",
		&receivers, &processors, &exporters, &service)
}

// onePipeline is the configuration of most tests.
func onePipeline(t *testing.T, signal string) pipeline {
	return pipeline{id: "1", signal: signal, socket: socket(t), directory: filepath.Join(t.TempDir(), "out")}
}

// sum reads one metric from the Collector.
func sum(t *testing.T, c *collector.Collector, name string, labels ...string) int {
	t.Helper()
	metrics, err := c.Metrics(background(t))
	require.NoError(t, err)
	value, ok := metrics.Sum(name, labels...)
	require.True(t, ok, "no series of %s with %v", name, labels)
	return int(value)
}

// The metrics that tests read.
const (
	writtenRecords = "otelcol_exporter_raw_output_written_records"
	writtenBytes   = "otelcol_exporter_raw_output_written_bytes"
	droppedRecords = "otelcol_exporter_raw_output_dropped_records"
	skippedRecords = "otelcol_exporter_raw_output_skipped_records"
	chunks         = "otelcol_processor_raw_output_chunks"
	records        = "otelcol_processor_raw_output_records"
	pendingOutputs = "otelcol_processor_raw_output_pending_outputs"
	pendingBytes   = "otelcol_processor_raw_output_pending_bytes"
)
