package tally

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAdd(t *testing.T) {
	type added struct {
		n      int
		total  int64
		report bool
	}
	for _, test := range []struct {
		name string
		adds []added
	}{
		{"the first is reported, the second not", []added{{1, 1, true}, {1, 2, false}}},
		{"the first are, however many", []added{{7, 7, true}, {1, 8, false}}},
		{"the 1000th is", []added{{998, 998, true}, {1, 999, false}, {1, 1000, true}, {1, 1001, false}}},
		{"also among others", []added{{999, 999, true}, {5, 1004, true}, {995, 1999, false}, {2, 2001, true}}},
		{"once for several thousands", []added{{1, 1, true}, {5000, 5001, true}, {998, 5999, false}, {1, 6000, true}}},
		{"exactly 1000 at once", []added{{1000, 1000, true}, {1000, 2000, true}, {1000, 3000, true}}},
		{"none is no loss", []added{{0, 0, false}, {1, 1, true}, {0, 1, false}}},
		{"nor less than none", []added{{1, 1, true}, {-5, 1, false}, {1, 2, false}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var tally Tally
			for i, a := range test.adds {
				total, report := tally.Add(a.n)
				assert.Equal(t, a, added{a.n, total, report}, fmt.Sprint("add ", i))
			}
		})
	}
}

// One by one, from many goroutines: each total is given out once, and one line comes for each 1000.
func TestConcurrentAdds(t *testing.T) {
	const goroutines, each = 8, 5000
	var tally Tally
	var reports atomic.Int64
	var all sync.WaitGroup
	var seen [goroutines*each + 1]atomic.Int32
	for range goroutines {
		all.Go(func() {
			for range each {
				total, report := tally.Add(1)
				seen[total].Add(1)
				if report {
					reports.Add(1)
				}
			}
		})
	}
	all.Wait()
	for total := 1; total <= goroutines*each; total++ {
		assert.Equal(t, int32(1), seen[total].Load(), total)
	}
	assert.Equal(t, int64(1+goroutines*each/Every), reports.Load())
}
