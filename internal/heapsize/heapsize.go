// Package heapsize tells how much memory attributes take, so that what is kept can be counted against a limit.
package heapsize // import "github.com/otel-rawoutput/rawoutput/internal/heapsize"

import "go.opentelemetry.io/collector/pdata/pcommon"

// What pdata allocates beside the bytes of strings, in bytes of a 64-bit machine, with what the allocator rounds up to.
// TestAgainstTheHeap holds them against reality.
const (
	keyValue  = 32 // a key's string header and a value's interface, one element of a map
	anyValue  = 16 // a value's interface, one element of an array
	boxed     = 16 // what a value points to: a number, a boolean, a string header
	container = 48 // what an array, a map or bytes point to, with the slice header in it
)

// LogRecord and Span are what an empty one takes.
const (
	LogRecord = 208
	Span      = 320
)

// Map is the memory that a map's content takes, in bytes.
func Map(m pcommon.Map) int64 {
	size := int64(0)
	for key, value := range m.All() {
		size += Entry(key, value)
	}
	return size
}

// Entry is the memory that one entry of a map takes, in bytes.
func Entry(key string, value pcommon.Value) int64 { return keyValue + int64(len(key)) + Value(value) }

// Value is the memory that a value's content takes, in bytes.
func Value(v pcommon.Value) int64 {
	switch v.Type() {
	case pcommon.ValueTypeEmpty:
		return 0
	case pcommon.ValueTypeStr:
		return boxed + int64(len(v.Str()))
	case pcommon.ValueTypeBytes:
		return container + int64(v.Bytes().Len())
	case pcommon.ValueTypeMap:
		return container + Map(v.Map())
	case pcommon.ValueTypeSlice:
		size := int64(container)
		for _, element := range v.Slice().All() {
			size += anyValue + Value(element)
		}
		return size
	default:
		return boxed
	}
}
