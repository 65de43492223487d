// Package pipeline measures the components together.
package pipeline

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter"
	generator "github.com/otel-rawoutput/rawoutput/internal/load"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor"
)

// BenchmarkPipeline is the processor and the exporter, without a Collector and a network: it decodes requests and records
// what is in them. "decoded" does the first alone, as the receiver must.
//
//	go test -run='^$' -bench=. ./test/pipeline
func BenchmarkPipeline(b *testing.B) {
	for _, load := range []struct {
		name  string
		shape generator.Shape
	}{
		{"single", generator.Shape{ChunksPerRecord: 1, Form: replay.Single}},
		{"array-20", generator.Shape{ChunksPerRecord: 20, Form: replay.Array}},
		{"packed-20", generator.Shape{ChunksPerRecord: 20, Form: replay.Packed}},
	} {
		requests := requestsOf(b, load.shape)
		b.Run(load.name+"/decoded", func(b *testing.B) {
			benchmarkPipeline(b, requests, func(context.Context, plog.Logs) error { return nil })
		})
		b.Run(load.name+"/recorded", func(b *testing.B) { benchmarkPipeline(b, requests, pipeline(b, false)) })
		b.Run(load.name+"/recorded-packed", func(b *testing.B) { benchmarkPipeline(b, requests, pipeline(b, true)) })
	}
}

func benchmarkPipeline(b *testing.B, requests [][]byte, consume consumer.ConsumeLogsFunc) {
	b.ReportAllocs()
	ballast := make([]byte, 16<<20) // about what is alive in a Collector, so that garbage is collected as rarely
	n := 0
	for b.Loop() {
		request := requests[n%len(requests)]
		batch, err := new(plog.ProtoUnmarshaler).UnmarshalLogs(request)
		require.NoError(b, err)
		require.NoError(b, consume(context.Background(), batch))
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)*float64(len(requests))/(outputs*chunksPerOutput), "ns/chunk")
	runtime.KeepAlive(ballast)
}

const (
	outputs         = 640 // before all of them come again, as others: nothing is numbered, and all have ended
	inFlight        = 64
	chunksPerOutput = 100
)

// requestsOf returns what one server sends.
func requestsOf(b *testing.B, shape generator.Shape) (requests [][]byte) {
	shape.Run, shape.Outputs, shape.N, shape.Chunks, shape.Unnumbered = "bench", outputs, 1, chunksPerOutput, true
	plan := generator.Plan{Shape: shape, Senders: 1, InFlight: inFlight, BatchSize: 64, Signal: replay.AsLogs, Timeout: time.Minute}
	plan.Resource = map[string]string{"service.name": "bench"}
	_, err := generator.Run(context.Background(), plan, func() (otlpclient.Client, error) {
		return &recorder{add: func(request []byte) { requests = append(requests, request) }}, nil
	})
	require.NoError(b, err)
	return requests
}

// recorder keeps what is sent.
type recorder struct {
	otlpclient.Client
	add func(request []byte)
}

func (r *recorder) SendLogs(_ context.Context, batch plog.Logs) error {
	request, err := new(plog.ProtoMarshaler).MarshalLogs(batch)
	r.add(request)
	return err
}

func (r *recorder) Close() error { return nil }

// pipeline starts a processor and an exporter behind it.
func pipeline(b *testing.B, packed bool) consumer.ConsumeLogsFunc {
	ctx, host := context.Background(), componenttest.NewNopHost()
	ef := rawoutputexporter.NewFactory()
	ec := ef.CreateDefaultConfig().(*rawoutputexporter.Config)
	ec.Directory = filepath.Join(b.TempDir(), "records")
	e, err := ef.CreateLogs(ctx, exportertest.NewNopSettings(ef.Type()), ec)
	require.NoError(b, err)
	require.NoError(b, e.Start(ctx, host))
	b.Cleanup(func() { require.NoError(b, e.Shutdown(ctx)) })
	pf := rawoutputprocessor.NewFactory()
	pc := pf.CreateDefaultConfig().(*rawoutputprocessor.Config)
	pc.PackedRecords = packed
	p, err := pf.CreateLogs(ctx, processortest.NewNopSettings(pf.Type()), pc, e)
	require.NoError(b, err)
	require.NoError(b, p.Start(ctx, host))
	b.Cleanup(func() { require.NoError(b, p.Shutdown(ctx)) })
	return p.ConsumeLogs
}
