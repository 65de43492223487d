package assembly

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

func sourceOf(t *testing.T, resource map[string]any) Source {
	t.Helper()
	attributes := pcommon.NewMap()
	require.NoError(t, attributes.FromRaw(resource))
	return SourceOf(attributes)
}

func TestSameSource(t *testing.T) {
	type resource = map[string]any
	for _, test := range []struct {
		name string
		a, b resource
	}{
		{"nothing that identifies", resource{}, resource{"k8s.pod.name": "p", "service.version": "1"}},
		{"no value is none", resource{"service.name": "s"}, resource{"service.name": "s", "service.namespace": nil}},
		{"an empty string is none", resource{"service.name": "s"}, resource{"service.name": "s", "process.pid": ""}},
		{"what does not identify", resource{"service.name": "s"}, resource{"service.name": "s", "telemetry.sdk.name": "x"}},
		{
			"a host that is known late, beside an instance",
			resource{"service.instance.id": "i"}, resource{"service.instance.id": "i", "host.name": "h", "k8s.pod.uid": "u"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, sourceOf(t, test.a), sourceOf(t, test.b))
		})
	}
}

func TestDifferentSources(t *testing.T) {
	seen := map[Source]map[string]any{}
	for _, resource := range []map[string]any{
		{},
		{"service.namespace": "x"},
		{"service.name": "x"},
		{"service.instance.id": "x"},
		{"process.pid": "x"},
		{"host.name": "x"},
		{"k8s.pod.uid": "x"},
		{"service.name": "y"},
		{"service.name": "x", "process.pid": int64(1)},
		{"service.name": "x", "process.pid": int64(2)},
		{"service.name": "x", "host.name": "h"},
		{"service.name": "x", "host.name": "g"},
		{"service.name": "x", "host.name": "h", "k8s.pod.uid": "u"},
		{"service.name": "x", "service.instance.id": "h"},
		// Without their lengths these would be the same, one letter after the other.
		{"service.namespace": "a", "service.name": "bc"},
		{"service.namespace": "ab", "service.name": "c"},
		{"service.namespace": "abc"},
		{"service.name": "abc"},
		{"service.name": "aservice.name", "process.pid": "b"},
		{"service.name": "a", "process.pid": "service.nameb"},
	} {
		source := sourceOf(t, resource)
		if other, ok := seen[source]; ok {
			t.Errorf("%v and %v are one source", other, resource)
		}
		seen[source] = resource
	}
}

// An instance id without a value is missing: the fallback counts.
func TestFallbackWithoutInstance(t *testing.T) {
	for _, none := range []any{nil, ""} {
		a := sourceOf(t, map[string]any{"service.name": "s", "service.instance.id": none, "host.name": "a"})
		b := sourceOf(t, map[string]any{"service.name": "s", "service.instance.id": none, "host.name": "b"})
		assert.NotEqual(t, a, b)
	}
}

// All chunks without a source share one, and the caller knows it by its value.
func TestZeroSource(t *testing.T) {
	assert.Equal(t, Source{}, sourceOf(t, nil))
	assert.NotEqual(t, Source{}, sourceOf(t, map[string]any{"host.name": "h"}))
}

func TestTypesInASource(t *testing.T) {
	assert.NotEqual(t, Source{}, sourceOf(t, map[string]any{"process.pid": int64(0)}), "0 is a value")
	assert.NotEqual(t, Source{}, sourceOf(t, map[string]any{"process.pid": false}))
	assert.NotEqual(t,
		sourceOf(t, map[string]any{"service.name": []any{"a", "b"}}), sourceOf(t, map[string]any{"service.name": []any{"b", "a"}}))
}

// A source with long attributes costs no more than others: it is a digest.
func TestLongSource(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	seen := map[Source]bool{}
	for i := range 100 {
		seen[sourceOf(t, map[string]any{"service.name": fmt.Sprint(long, i)})] = true
	}
	assert.Len(t, seen, 100)
}
