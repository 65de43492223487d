package load

import (
	"container/heap"
	"math/rand/v2"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// network delivers records late and twice, as networks do.
type network struct {
	copies   float64 // the share that comes twice
	disorder int     // places that a record may come late
	random   *rand.Rand
	sent     int
	on       deliveries
}

// delivery is a record on its way, and its chunks; those of a copy are none.
type delivery struct {
	record replay.Record
	chunks int
	place  int
}

// add takes a record.
func (n *network) add(record replay.Record, chunks int) {
	heap.Push(&n.on, delivery{record, chunks, n.sent + n.random.IntN(n.disorder+1)})
	if n.random.Float64() < n.copies {
		heap.Push(&n.on, delivery{record, 0, n.sent + n.random.IntN(n.disorder+1)})
	}
	n.sent++
}

// next returns what arrives now; all that is on its way, once no more is sent.
func (n *network) next(isOver bool) (d delivery, ok bool) {
	if len(n.on) == 0 || !isOver && n.on[0].place >= n.sent {
		return delivery{}, false
	}
	return heap.Pop(&n.on).(delivery), true
}

// deliveries is a heap of them, the first to come on top.
type deliveries []delivery

func (d deliveries) Len() int           { return len(d) }
func (d deliveries) Less(i, j int) bool { return d[i].place < d[j].place }
func (d deliveries) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deliveries) Push(x any)        { *d = append(*d, x.(delivery)) }
func (d *deliveries) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = delivery{}
	*d = (*d)[:last]
	return x
}
