// Package heapsize tells how much memory attributes take, so that what is kept can be counted against a limit.
package heapsize // import "github.com/otel-rawoutput/rawoutput/internal/heapsize"

import "go.opentelemetry.io/collector/pdata/pcommon"

// What pdata allocates beside the bytes of strings, in bytes of a 64-bit machine, with what the allocator rounds up to.
// TestAgainstTheHeap holds them against reality.
const (
	keyValue  = 40 // a key's string header, its index and a value's interface, one element of a map
	anyValue  = 16 // a value's interface, one element of an array
	str       = 16 // what a string's value points to: a string header
	number    = 8  // what a number's value points to
	boolean   = 2  // what a boolean's value points to: the allocator packs small ones together
	container = 32 // what the value of an array, a map or bytes points to: a pointer and a slice header
)

// LogRecord and Span are what an empty one takes.
const (
	LogRecord = 144
	Span      = 224
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
		return str + int64(len(v.Str()))
	case pcommon.ValueTypeBool:
		return boolean
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
		return number
	}
}
