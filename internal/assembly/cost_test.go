package assembly

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// server has requests in flight that take turns, as those of an inference server do.
type server struct {
	table    *Table
	from     *From
	requests []string
	chunk    chunk.Chunk // numbered or not
	turn     int
	now      time.Time
}

// forms are the ways to send chunks in order.
var forms = []struct {
	name     string
	numbered bool
}{{"unnumbered", false}, {"numbered", true}}

func newServer(inFlight int) *server {
	c := begin(Options{Outputs: inFlight, Bytes: 1 << 40, OutputBytes: 1 << 30})
	s := &server{table: c.table, from: c.from("x"), chunk: chunkOf("", " token").tokens(1234).Chunk, now: time.Unix(0, 0)}
	s.requests = make([]string, inFlight)
	for i := range s.requests {
		s.requests[i] = fmt.Sprintf("chatcmpl-%032d", i)
	}
	return s
}

// say adds the next request's chunk.
func (s *server) say() {
	s.chunk.RequestID = s.requests[s.turn]
	s.chunk.Time++
	s.table.Add(s.from, signal.Trace{}, &s.chunk, s.now)
	if s.turn++; s.turn == len(s.requests) {
		s.turn = 0
		s.chunk.Index++
	}
}

func (s *server) sayAll(times int) {
	for range times * len(s.requests) {
		s.say()
	}
}

// Adding a chunk to an output in flight allocates nothing but room for it, which grows ever more rarely.
func TestAddAllocates(t *testing.T) {
	const inFlight, before, chunks = 8, 1000, 500
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			s := newServer(inFlight)
			s.chunk.Numbered = form.numbered
			s.sayAll(before)
			perChunk := testing.AllocsPerRun(1, func() { s.sayAll(chunks) }) / (inFlight * chunks)
			t.Logf("%.4f allocations a chunk, between the %d. and the %d. of an output", perChunk, before, before+chunks)
			assert.Less(t, perChunk, 0.01)
		})
	}
}

// While there is room, it allocates nothing at all.
func TestAddWithRoomAllocatesNothing(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			s := newServer(8)
			s.chunk.Numbered = form.numbered
			s.sayAll(1)
			for _, o := range s.table.outputs {
				o.joined, o.lengths.varints, o.tokens.varints = make([]byte, 0, 1<<20), make([]byte, 0, 1<<16), make([]byte, 0, 1<<18)
			}
			assert.Zero(t, testing.AllocsPerRun(1000, s.say))
		})
	}
}

// TestBytesAgainstTheHeap: what a table says that it takes must be about what it takes, or its limit is none.
func TestBytesAgainstTheHeap(t *testing.T) {
	for _, test := range []struct{ outputs, chunks int }{{20_000, 1}, {20_000, 10}, {2000, 300}} {
		t.Run(fmt.Sprintf("%d outputs of %d chunks", test.outputs, test.chunks), func(t *testing.T) {
			s := newServer(test.outputs)
			took := s.takes(func() { s.sayAll(test.chunks) })
			t.Logf("%d bytes counted, %d taken", s.table.Bytes(), took)
			assert.InEpsilon(t, took, s.table.Bytes(), 0.25)
		})
	}
}

// takes is how many bytes are alive after something is said that were not before.
func (s *server) takes(say func()) int64 {
	requests := int64(len(s.requests)) * int64(len(s.requests[0])) // were there before, and are counted
	before := heap()
	say()
	took := heap() - before + requests
	runtime.KeepAlive(s)
	return took
}

// heap is how many bytes are alive.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one may have found finalizers to run
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkMemory is what outputs in flight take, on the heap, as a ratio to what they must hold: the text, and 4 bytes for each
// token and each frame.
func BenchmarkMemory(b *testing.B) {
	for _, test := range []struct{ outputs, chunks int }{{4096, 100}, {4096, 500}, {64, 2000}, {64, 32_000}} {
		b.Run(fmt.Sprintf("%d outputs of %d chunks", test.outputs, test.chunks), func(b *testing.B) {
			took, held := int64(0), 0
			for b.Loop() {
				s := newServer(test.outputs)
				took += s.takes(func() { held += s.sayUnevenly(test.chunks) })
			}
			b.ReportMetric(float64(took)/float64(held), "bytes/byte")
			b.ReportMetric(0, "ns/op") // says nothing
		})
	}
}

// sayUnevenly adds so many chunks to each output on average, from half to one and a half times as many, as outputs that began
// at different times have: how much room is left at one length is chance. It returns the bytes that they must hold.
func (s *server) sayUnevenly(chunks int) (held int) {
	for i := range chunks * 3 / 2 {
		for turn := range s.requests {
			if i < chunks/2+chunks*turn/len(s.requests) {
				s.turn = turn
				s.say()
				held += len(s.chunk.Frames[0]) + 4*len(s.chunk.TokenIDs) + 4
			}
		}
	}
	return held
}

func BenchmarkAdd(b *testing.B) {
	for _, inFlight := range []int{64, 4096, 50_000} {
		for _, form := range forms {
			b.Run(fmt.Sprintf("%d in flight/%s", inFlight, form.name), func(b *testing.B) {
				s := newServer(inFlight)
				s.chunk.Numbered = form.numbered
				s.sayAll(10)
				b.ReportAllocs()
				for b.Loop() {
					s.say()
				}
			})
		}
	}
}

// BenchmarkAddInDisorder is an output of 10,000 chunks in the worst of orders, and in one as networks make it.
func BenchmarkAddInDisorder(b *testing.B) {
	const chunks = 10_000
	for _, order := range []struct {
		name  string
		index func(i uint32) uint32
	}{
		{"backwards", func(i uint32) uint32 { return chunks - 1 - i }},
		{"each second one later", func(i uint32) uint32 { return i*2%chunks + i*2/chunks }},
		{"blocks of 16 backwards", func(i uint32) uint32 { return i ^ 15 }},
	} {
		b.Run(order.name, func(b *testing.B) {
			s := newServer(1)
			c := chunkOf("r", " token").tokens(1234).number(0)
			b.ReportAllocs()
			for b.Loop() {
				for i := range uint32(chunks) {
					c.Index = order.index(i)
					c.IsFinal = c.Index == chunks-1
					s.table.Add(s.from, signal.Trace{}, &c.Chunk, s.now)
				}
				if ended, _ := s.table.TakeEnded(); len(ended) != 1 || ended[0].Cause != Finished {
					b.Fatal("it has all of its chunks, and must end")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunks), "ns/chunk")
		})
	}
}

// BenchmarkEnd is all of an output with 100 chunks, its record included: the last 99 chunks in one, so that the end counts.
func BenchmarkEnd(b *testing.B) {
	first := chunkOf("r", " token").Chunk
	last := chunkOf("r", strings.Split(strings.Repeat(" token|", 98)+" token", "|")...).tokens(make([]uint32, 99)...).final().Chunk
	s := newServer(4096)
	s.sayAll(1)
	var r record.Record
	b.ReportAllocs()
	for b.Loop() {
		s.table.Add(s.from, signal.Trace{}, &first, s.now)
		s.table.Add(s.from, signal.Trace{}, &last, s.now)
		ended, _ := s.table.TakeEnded()
		for i := range ended {
			ended[i].Fill(&r)
		}
	}
}

func BenchmarkSourceOf(b *testing.B) {
	resource := begin(unlimited).from("0f9e6a3c-5d4b-4c7e-9a51-7d2a4d1c8e21").Scope.Resource.Attributes()
	resource.PutStr("service.name", "vllm")
	resource.PutInt("process.pid", 12345)
	b.ReportAllocs()
	for b.Loop() {
		SourceOf(resource)
	}
}
