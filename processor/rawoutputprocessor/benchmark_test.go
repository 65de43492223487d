package rawoutputprocessor

import (
	"context"
	"fmt"
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

func benchmarkConsume(b *testing.B, options replay.Options) {
	const outputs, chunksAnOutput = 64, 200
	var events []replay.Event
	for output := range outputs {
		text := replay.Text("")
		for i := range chunksAnOutput {
			text += " word"
			events = append(events, replay.Event{
				Type: replay.TypeChunk, Time: startOfStream + uint64(i), RequestID: replay.ID(fmt.Sprint(output)),
				TextDiff: " word", Text: text, TokenIDsDiff: []uint32{uint32(i)}, IsFinal: i == chunksAnOutput-1, Streaming: true,
			})
		}
	}
	var batches []plog.Logs
	records := replay.Records(events, options)
	// Interleave: record i of each output, then record i+1 of each.
	each := len(records) / outputs
	for i := range each {
		var batch []replay.Record
		for output := range outputs {
			batch = append(batch, records[output*each+i])
		}
		batches = append(batches, replay.Logs(batch, map[string]string{"service.name": "benchmark"}))
	}
	p, err := newProcessor(createDefaultConfig().(*Config), metadatatest.NewSettings(componenttest.NewTelemetry()), signal.Logs{},
		func(context.Context, plog.Logs) error { return nil })
	require.NoError(b, err)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		batch := batches[n%len(batches)]
		postpone(batch)
		require.NoError(b, p.consume(context.Background(), batch))
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*outputs*chunksAnOutput/len(batches)), "ns/chunk")
}

// postpone moves a batch to the next day: chunks that come again at the same time would be late copies.
func postpone(batch plog.Logs) {
	records := batch.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	for i := range records.Len() {
		records.At(i).SetTimestamp(records.At(i).Timestamp() + pcommon.Timestamp(24*time.Hour))
	}
}
