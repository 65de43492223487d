package rawoutputexporter

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadatatest"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// BenchmarkPush encodes records of 4 KB of text and writes them to a file, in batches of 1 and of 100, of one sender and of
// as many as there are processors.
//
//	go test -run='^$' -bench=Push -benchmem ./exporter/rawoutputexporter
func BenchmarkPush(b *testing.B) {
	for _, records := range []int{1, 100} {
		var events []event
		text := strings.Repeat("What the model said. ", 200)
		for i := range records {
			events = append(events, recordOf(fmt.Sprint(i), text))
		}
		data := batch(events...)
		b.Run(fmt.Sprintf("%d/one sender", records), func(b *testing.B) {
			e := benchmarked(b, records*len(text))
			for b.Loop() {
				require.NoError(b, e.push(context.Background(), data))
			}
			b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
		})
		b.Run(fmt.Sprintf("%d/senders", records), func(b *testing.B) {
			e := benchmarked(b, records*len(text))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					require.NoError(b, e.push(context.Background(), data))
				}
			})
			b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func benchmarked(b *testing.B, bytes int) *rawOutputExporter[plog.Logs] {
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = b.TempDir()
	e, err := newExporter[plog.Logs](cfg, metadatatest.NewSettings(componenttest.NewTelemetry()), signal.Logs{})
	require.NoError(b, err)
	e.files.begin()
	b.Cleanup(func() { e.release(cfg) })
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	return e
}
