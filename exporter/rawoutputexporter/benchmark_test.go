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

// BenchmarkPush encodes records of 4 KB of text and writes them to a file, in batches of 1 and of 100.
//
//	go test -run='^$' -bench=Push -benchmem ./exporter/rawoutputexporter
func BenchmarkPush(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			cfg := createDefaultConfig().(*Config)
			cfg.Directory = b.TempDir()
			e, err := newExporter[plog.Logs](cfg, metadatatest.NewSettings(componenttest.NewTelemetry()), signal.Logs{})
			require.NoError(b, err)
			defer e.release(cfg)
			var events []event
			text := strings.Repeat("What the model said. ", 200)
			for i := range records {
				events = append(events, recordOf(fmt.Sprint(i), text))
			}
			data := batch(events...)
			b.SetBytes(int64(records * len(text)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				require.NoError(b, e.push(context.Background(), data))
				n += records
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
