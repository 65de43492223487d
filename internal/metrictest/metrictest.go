// Package metrictest reads self metrics in tests.
package metrictest // import "github.com/otel-rawoutput/rawoutput/internal/metrictest"

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Values returns the series of a counter by the value of their one attribute, or by "" where they have none.
func Values(t *testing.T, telemetry *componenttest.Telemetry, name string) map[string]int {
	t.Helper()
	metric, err := telemetry.GetMetric(name)
	require.NoError(t, err)
	sum, ok := metric.Data.(metricdata.Sum[int64])
	require.True(t, ok, "%s is no counter", name)
	values := map[string]int{}
	for _, point := range sum.DataPoints {
		value := ""
		for _, label := range point.Attributes.ToSlice() {
			value += label.Value.String()
		}
		values[value] += int(point.Value)
	}
	return values
}

// NonZero is Values without the series that are 0.
func NonZero(t *testing.T, telemetry *componenttest.Telemetry, name string) map[string]int {
	t.Helper()
	values := Values(t, telemetry, name)
	for value, n := range values {
		if n == 0 {
			delete(values, value)
		}
	}
	return values
}

// Total adds up all series of a counter.
func Total(t *testing.T, telemetry *componenttest.Telemetry, name string) (total int) {
	t.Helper()
	for _, n := range Values(t, telemetry, name) {
		total += n
	}
	return total
}
