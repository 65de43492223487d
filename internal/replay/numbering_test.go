package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// numbersOf returns the chunk index, or the chunk counts, of each record of a stream.
func numbersOf(t *testing.T, options Options, events ...Event) (numbers []any) {
	t.Helper()
	logs := Logs(Records(events, options), nil)
	logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().RemoveIf(func(r plog.LogRecord) bool {
		raw := r.Attributes().AsRaw()
		index, isChunk := raw[contract.ChunkIndex]
		counts, isEnd := raw[contract.ChunkCounts]
		require.False(t, isChunk && isEnd)
		if isEnd {
			index = counts
		}
		numbers = append(numbers, index)
		return false
	})
	return numbers
}

func TestNumbering(t *testing.T) {
	a, b, end := chunkOf("1", 0, "x"), chunkOf("2", 0, "x"), endOf("1", 0, "")
	counts := func(n ...any) []any { return n }
	zero, one, two, three := int64(0), int64(1), int64(2), int64(3)
	for _, test := range []struct {
		name   string
		events []Event
		want   []any
	}{
		{"each output by itself", []Event{a, b, a, ofOutput(1, a), a}, []any{zero, zero, one, zero, two}},
		{"again from 0 after a final chunk", []Event{a, final(a), a, a}, []any{zero, one, zero, one}},
		{"and after a request end", []Event{a, a, end, a, end}, []any{zero, one, counts(two), zero, counts(one)}},
		{
			"counts have finished outputs too, and 0 for those that never were",
			[]Event{a, final(a), ofOutput(2, a), ofOutput(2, a), ofOutput(2, a), end},
			[]any{zero, one, zero, one, two, counts(two, zero, three)},
		},
		{"of a request without chunks", []Event{end}, []any{[]any{}}},
		{"an index that is none", []Event{ofOutput(-1, a), ofOutput(1<<40, a), end}, []any{zero, zero, []any{}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, numbersOf(t, Options{Form: Single, Numbered: true}, test.events...))
		})
	}
	t.Run("a record has the number of its first chunk", func(t *testing.T) {
		assert.Equal(t, []any{zero, two, counts(three)},
			numbersOf(t, Options{Form: Packed, ChunksPerRecord: 2, Numbered: true}, a, a, a, end))
	})
	t.Run("only if asked for", func(t *testing.T) {
		assert.Equal(t, []any{nil, nil}, numbersOf(t, Options{Form: Single}, a, end))
	})
}
