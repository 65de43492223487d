// Package tally counts what is lost and says when that is worth a line in the log: a flood of losses must not become a
// flood of lines.
package tally // import "github.com/otel-rawoutput/rawoutput/internal/tally"

import "sync/atomic"

// Every is how many losses lie between two lines.
const Every = 1000

// Tally is a count. The zero value is ready, and safe for concurrent use.
type Tally struct{ total atomic.Int64 }

// Add counts n more, and returns the total and whether to report it: with the first, and with every 1000th.
func (t *Tally) Add(n int) (total int64, report bool) {
	if n <= 0 {
		return t.total.Load(), false
	}
	total = t.total.Add(int64(n))
	before := total - int64(n)
	return total, before == 0 || before/Every != total/Every
}
