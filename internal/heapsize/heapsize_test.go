package heapsize

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

func TestSizesAddUp(t *testing.T) {
	m := pcommon.NewMap()
	require.NoError(t, m.FromRaw(map[string]any{
		"nothing": nil, "s": "text", "n": int64(1), "d": 1.5, "b": true, "raw": []byte("bytes"),
		"array": []any{int64(1), "x", []any{}}, "map": map[string]any{"k": "v"},
	}))
	sum := int64(0)
	for key, value := range m.All() {
		assert.Equal(t, Value(value)+int64(len(key))+keyValue, Entry(key, value))
		sum += Entry(key, value)
	}
	assert.Equal(t, sum, Map(m))
	assert.Zero(t, Map(pcommon.NewMap()))
	assert.Zero(t, Value(pcommon.NewValueEmpty()))
	assert.Equal(t, Value(pcommon.NewValueStr(""))+100, Value(pcommon.NewValueStr(strings.Repeat("x", 100))))
}

func TestEstimateAllocatesNothing(t *testing.T) {
	m := pcommon.NewMap()
	require.NoError(t, m.FromRaw(map[string]any{"s": "text", "array": []any{int64(1)}, "map": map[string]any{"k": "v"}, "b": []byte{1}}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { Map(m) }))
}
