//go:build !race

// The race detector switches off the allocator for tiny objects, so that small values take twice of what they do without it.

package heapsize

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// tolerance is how far the estimate may be from what is taken: a limit of memory need not be more exact than that.
const tolerance = 0.25

// Values are measured many at a time, so that neither what the runtime does meanwhile counts nor what holds them.
const (
	containers = 100
	each       = 100
	many       = containers * each
)

// heap is how many bytes are alive.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one may have found finalizers to run
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// taken is what the heap grows by when build is called; the result of build is alive until then.
func taken(build func() any) int64 {
	before := heap()
	built := build()
	took := heap() - before
	runtime.KeepAlive(built)
	return took
}

// kinds of values. Each value is made anew: none shares a string with another.
var kinds = []struct {
	name string
	set  func(v pcommon.Value, i int)
}{
	{"nothing", func(pcommon.Value, int) {}},
	{"booleans", func(v pcommon.Value, i int) { v.SetBool(i%2 == 0) }},
	{"ints", func(v pcommon.Value, i int) { v.SetInt(int64(i)) }},
	{"doubles", func(v pcommon.Value, i int) { v.SetDouble(float64(i)) }},
	{"words", func(v pcommon.Value, i int) { v.SetStr(text(i, 16)) }},
	{"texts", func(v pcommon.Value, i int) { v.SetStr(text(i, 1024)) }},
	{"bytes", func(v pcommon.Value, i int) { v.SetEmptyBytes().FromRaw([]byte(text(i, 256))) }},
	{"arrays of ints", func(v pcommon.Value, i int) {
		array := v.SetEmptySlice()
		array.EnsureCapacity(20)
		for j := range 20 {
			array.AppendEmpty().SetInt(int64(j))
		}
	}},
	{"arrays of words", func(v pcommon.Value, i int) {
		array := v.SetEmptySlice()
		array.EnsureCapacity(20)
		for j := range 20 {
			array.AppendEmpty().SetStr(text(j, 16))
		}
	}},
	{"maps", func(v pcommon.Value, i int) {
		m := v.SetEmptyMap()
		m.EnsureCapacity(10)
		for j := range 10 {
			m.PutStr(text(j, 16), text(j, 32))
		}
	}},
}

// text returns a new string of that many bytes, a size that the allocator has.
func text(i, size int) string {
	s := fmt.Sprintf("%0*d", size, i)
	return strings.Clone(s)
}

// TestAgainstTheHeap holds the estimate against what is taken: of large maps and arrays, as they are once they were copied,
// without room to grow.
func TestAgainstTheHeap(t *testing.T) {
	for _, kind := range kinds {
		t.Run("maps of "+kind.name, func(t *testing.T) {
			maps := make([]pcommon.Map, containers)
			took := taken(func() any {
				for i := range maps {
					maps[i] = pcommon.NewMap()
					maps[i].EnsureCapacity(each)
					for j := range each {
						kind.set(maps[i].PutEmpty(text(j, 16)), j)
					}
				}
				return maps
			})
			check(t, took, containers*Map(maps[0]))
		})
		t.Run("arrays of "+kind.name, func(t *testing.T) {
			arrays := make([]pcommon.Value, containers)
			took := taken(func() any {
				for i := range arrays {
					arrays[i] = pcommon.NewValueSlice()
					arrays[i].Slice().EnsureCapacity(each)
					for j := range each {
						kind.set(arrays[i].Slice().AppendEmpty(), j)
					}
				}
				return arrays
			})
			check(t, took, containers*Value(arrays[0]))
		})
	}
}

func check(t *testing.T, took, estimate int64) {
	t.Helper()
	t.Logf("taken %.1f, estimated %.1f bytes an element", float64(took)/many, float64(estimate)/many)
	assert.InEpsilon(t, took, estimate, tolerance)
}

func TestEventsAgainstTheHeap(t *testing.T) {
	t.Run("log records", func(t *testing.T) {
		logs := plog.NewLogs()
		took := taken(func() any {
			records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
			records.EnsureCapacity(many)
			for range many {
				records.AppendEmpty()
			}
			return logs
		})
		check(t, took, many*LogRecord)
	})
	t.Run("spans", func(t *testing.T) {
		traces := ptrace.NewTraces()
		took := taken(func() any {
			spans := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
			spans.EnsureCapacity(many)
			for range many {
				spans.AppendEmpty()
			}
			return traces
		})
		check(t, took, many*Span)
	})
}
