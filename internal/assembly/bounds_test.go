package assembly

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// Senders can send forever what never comes to an end. Whatever it is, it stays within the limits, by the table's own account
// and by that of the heap.
func TestEndlessStreamsStayWithinTheLimits(t *testing.T) {
	const steps = 20_000
	limits := Options{Outputs: 2000, Bytes: 4 << 20, OutputBytes: 1 << 20, Remembered: 1000}
	for _, test := range []struct {
		name string
		step func(i int) step
		full bool // the limits are reached
	}{
		{"chunks of one output whose first never comes", func(i int) step { return n(uint32(1+i), "token") }, true},
		{"chunks of it with holes between them", func(i int) step { return n(uint32(1+2*i), "token") }, true},
		{"chunks of it backwards", func(i int) step { return n(uint32(steps-i), "token") }, true},
		{"chunks of many outputs whose first never comes", func(i int) step { return n(uint32(1+i), "token").index(uint32(i)) }, true},
		{"final chunks of them", func(i int) step { return n(uint32(1+i), "token").index(uint32(i)).final() }, true},
		{"large records", func(i int) step { return n(uint32(1+i), "token").text(long(2000)).index(uint32(i % 10)) }, true},
		{"records with many token ids", func(i int) step { return n(uint32(1+i), "token").tokens(make([]uint32, 500)...).index(uint32(i % 10)) }, true},
		{"records of ever another size, in order", func(i int) step { return chunkOf("r", []string{"a", "b"}[:1+i%2]...).number(uint32(i + i/2)) }, false},
		{"copies", func(i int) step { return n(uint32(i%3), "token") }, false},
		{"conflicts", func(i int) step { return chunkOf("r", []string{"a", "b"}[:1+i%2]...).number(uint32(i % 3)) }, false},
		{"late chunks", func(i int) step { return n(0, "token").at(1).final() }, false},
		{"request ends", func(i int) step { return endOf(fmt.Sprint("r", i), "error").counts(7, 7) }, true},
		{"request ends of one request", func(i int) step { return endOf("r", "error").counts(uint32(1 + i)) }, false},
		{"request ends with long reasons", func(i int) step { return endOf(fmt.Sprint("r", i), long(5000)).counts(1) }, true},
		{"request ends with many counts", func(i int) step { return endOf(fmt.Sprint("r", i%3000), "").counts(append(make([]uint32, 2000), 1)...) }, true},
		{"request ends and what they wait for in part", func(i int) step {
			if i%2 == 0 {
				return endOf(fmt.Sprint("r", i), "error").counts(2)
			}
			return chunkOf(fmt.Sprint("r", i-1), "token").number(1)
		}, true},
		{"outputs that are evicted and go on", func(i int) step { return n(uint32(i/3000), "token").index(uint32(i % 3000)) }, true},
		{"sources that say to have dropped chunks", func(i int) step { return n(0, "token").by(fmt.Sprint(i)).dropped(7).final() }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := begin(limits)
			before, highest := heap(), int64(0)
			for i := range steps {
				c.second++
				test.step(i).do(c)
				c.table.TakeEnded() // and so nobody holds any record
				clear(c.froms)      // no batch is held either
				highest = max(highest, c.table.Bytes())
				must(t, c.table.Bytes() <= limits.Bytes && c.table.recent.Len() <= limits.Outputs, "it stays within the limits")
			}
			checkInvariants(t, c.table)
			took := heap() - before
			t.Logf("at most %d bytes counted, %d taken at the end", highest, took)
			if test.full {
				assert.Greater(t, highest, limits.Bytes/8, "this fills the table")
			}
			const remembered = 4 << 20 // of outputs that ended and of sources, at most
			assert.Less(t, took, c.table.Bytes()+c.table.Bytes()/4+remembered)
			runtime.KeepAlive(c)
		})
	}
}

// What waits must count for about what it takes, as what is in order does.
func TestBytesOfWhatWaitsAgainstTheHeap(t *testing.T) {
	const outputs = 500
	for _, test := range []struct {
		name string
		step func(output, i int) *saidChunk
	}{
		{"one chunk each", func(o, i int) *saidChunk { return n(uint32(1+i), " token").tokens(1234) }},
		{"backwards", func(o, i int) *saidChunk { return n(uint32(100-i), " token").tokens(1234) }},
		{"several chunks each", func(o, i int) *saidChunk {
			return chunkOf("r", " token", " token", "", " token").number(uint32(1+4*i)).tokens(1, 2, 3, 4).aged(30, 20, 10, 0)
		}},
		{"texts and attributes", func(o, i int) *saidChunk {
			return n(uint32(1+i), " token").text(long(100 * i)).with(map[string]any{"model": "m", "k": int64(i), "l": []any{"x", 1.5}})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := begin(unlimited)
			from := c.from("a")
			before := heap()
			for i := range 50 {
				for o := range uint32(outputs) {
					c.table.Add(from, signal.Trace{}, &test.step(int(o), i).index(o).Chunk, time.Time{})
				}
			}
			took := heap() - before
			t.Logf("%d bytes counted, %d taken", c.table.Bytes(), took)
			require.Equal(t, outputs, c.table.Len())
			assert.InEpsilon(t, took, c.table.Bytes(), 0.25)
			runtime.KeepAlive(c)
		})
	}
}

func TestBytesOfRequestEndsAgainstTheHeap(t *testing.T) {
	const ends = 10_000
	for _, counts := range []int{1, 4, 300} {
		t.Run(fmt.Sprint(counts, " counts"), func(t *testing.T) {
			c := begin(Options{Outputs: ends, Bytes: 1 << 40, OutputBytes: 1 << 40})
			said := make([]uint32, counts)
			for i := range said {
				said[i] = 7
			}
			before := heap()
			for i := range ends {
				e := chunk.End{RequestID: fmt.Sprintf("chatcmpl-%032d", i), Reason: fmt.Sprint("error ", i), Time: 1, ChunkCounts: said}
				c.table.EndRequest(c.from("a").Source, &e, time.Time{})
			}
			took := heap() - before
			t.Logf("%d bytes counted, %d taken", c.table.Bytes(), took)
			require.Len(t, c.table.ends, ends)
			assert.InEpsilon(t, took, c.table.Bytes(), 0.25)
			runtime.KeepAlive(c)
		})
	}
}
