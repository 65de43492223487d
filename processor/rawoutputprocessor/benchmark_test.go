package rawoutputprocessor

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor/internal/metadatatest"
)

// BenchmarkConsume absorbs chunks, 64 records a batch, of outputs of 200 chunks each, and makes their records. Its ns/chunk
// has decoding, assembly and the record's attributes in it, not the receiver.
//
//	go test -run='^$' -bench=Consume -benchmem ./processor/rawoutputprocessor
func BenchmarkConsume(b *testing.B) {
	for _, form := range []struct {
		name    string
		options replay.Options
	}{
		{"single", replay.Options{Form: replay.Single, FullText: replay.FinalChunk}},
		{"single-numbered", replay.Options{Form: replay.Single, FullText: replay.FinalChunk, Numbered: true}},
		{"array-20", replay.Options{Form: replay.Array, ChunksPerRecord: 20, FullText: replay.FinalChunk}},
		{"packed-20", replay.Options{Form: replay.Packed, ChunksPerRecord: 20, FullText: replay.FinalChunk}},
		{"packed-20-numbered", replay.Options{Form: replay.Packed, ChunksPerRecord: 20, FullText: replay.FinalChunk, Numbered: true}},
	} {
		b.Run(form.name, func(b *testing.B) { benchmarkConsume(b, form.options) })
	}
}

// BenchmarkSenders is many senders of one processor, each with a source and outputs of its own: what the lock costs them.
// With no lock, and a core for each, twice as many would send twice as much.
//
//	go test -run='^$' -bench=Senders -cpu=1,2,4,8 ./processor/rawoutputprocessor
func BenchmarkSenders(b *testing.B) {
	for _, form := range []struct {
		name    string
		options replay.Options
	}{
		{"single", replay.Options{Form: replay.Single, FullText: replay.FinalChunk}},
		{"packed-20", replay.Options{Form: replay.Packed, ChunksPerRecord: 20, FullText: replay.FinalChunk}},
	} {
		b.Run(form.name, func(b *testing.B) { benchmarkSenders(b, form.options) })
	}
}

const (
	outputsInFlight = 64 // of a sender
	chunksAnOutput  = 200
)

func benchmarkConsume(b *testing.B, options replay.Options) {
	batches := batchesOf(0, options)
	p := newBenchmarked(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		batch := batches[n%len(batches)]
		postpone(batch)
		require.NoError(b, p.consume(context.Background(), batch))
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*chunksABatch(batches)), "ns/chunk")
}

func benchmarkSenders(b *testing.B, options replay.Options) {
	senders := make([][]plog.Logs, runtime.GOMAXPROCS(0)) // as many goroutines as RunParallel starts
	for i := range senders {
		senders[i] = batchesOf(i, options)
	}
	p := newBenchmarked(b)
	var started atomic.Int64
	b.ReportAllocs()
	b.ResetTimer() // RunParallel, unlike Loop, counts what was before
	b.RunParallel(func(pb *testing.PB) {
		batches := senders[started.Add(1)-1]
		for n := 0; pb.Next(); n++ {
			batch := batches[n%len(batches)]
			postpone(batch)
			if err := p.consume(context.Background(), batch); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*chunksABatch(senders[0]))/b.Elapsed().Seconds(), "chunks/s")
}

func newBenchmarked(b *testing.B) *rawOutputProcessor[plog.Logs] {
	p, err := newProcessor(createDefaultConfig().(*Config), metadatatest.NewSettings(componenttest.NewTelemetry()), signal.Logs{},
		func(context.Context, plog.Logs) error { return nil })
	require.NoError(b, err)
	return p
}

// batchesOf returns what a sender sends: record i of each output, then record i+1 of each.
func batchesOf(sender int, options replay.Options) (batches []plog.Logs) {
	var events []replay.Event
	for output := range outputsInFlight {
		for i := range chunksAnOutput {
			events = append(events, replay.Event{
				Type: replay.TypeChunk, Time: startOfStream + uint64(i), RequestID: replay.ID(fmt.Sprint(output)),
				TextDiff: " word", TokenIDsDiff: []uint32{uint32(i)}, Streaming: true,
			})
		}
		final := &events[len(events)-1]
		final.IsFinal, final.Text = true, replay.Text(strings.Repeat(" word", chunksAnOutput))
	}
	records := replay.Records(events, options)
	each := len(records) / outputsInFlight
	for i := range each {
		var batch []replay.Record
		for output := range outputsInFlight {
			batch = append(batch, records[output*each+i])
		}
		resource := map[string]string{"service.name": "benchmark", "service.instance.id": fmt.Sprint(sender)}
		batches = append(batches, replay.Logs(batch, resource))
	}
	return batches
}

// chunksABatch is how many chunks are in each batch of a sender.
func chunksABatch(batches []plog.Logs) int { return outputsInFlight * chunksAnOutput / len(batches) }

// postpone moves a batch to the next day: chunks that come again at the same time would be late copies.
func postpone(batch plog.Logs) {
	records := batch.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	for i := range records.Len() {
		records.At(i).SetTimestamp(records.At(i).Timestamp() + pcommon.Timestamp(24*time.Hour))
	}
}
