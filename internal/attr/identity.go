package attr

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// Identifying returns the attributes of a resource that tell one source from another (docs/contract.md, section 1,
// Identity), those that have a value, in the order of the contract.
func Identifying(resource pcommon.Map) iter.Seq2[string, pcommon.Value] {
	return func(yield func(string, pcommon.Value) bool) {
		for _, key := range contract.SourceAttributes {
			if v, ok := present(resource, key); ok && !yield(key, v) {
				return
			}
		}
		if _, ok := present(resource, contract.InstanceID); ok {
			return
		}
		for _, key := range contract.FallbackSourceAttributes {
			if v, ok := present(resource, key); ok && !yield(key, v) {
				return
			}
		}
	}
}

func present(attributes pcommon.Map, key string) (pcommon.Value, bool) {
	v, ok := attributes.Get(key)
	return v, ok && !Absent(v)
}
