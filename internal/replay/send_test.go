package replay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// receiver is a client that writes down what it is sent, and when.
type receiver struct {
	started time.Time
	logs    []int // records a batch
	spans   []int
	times   []time.Duration // since started
	refuse  int             // which batch it does not take, counted from 1
	hang    bool            // never answer
}

var errRefused = errors.New("refused")

func (r *receiver) take(ctx context.Context) error {
	r.times = append(r.times, time.Since(r.started))
	if r.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if len(r.times) == r.refuse {
		return errRefused
	}
	return nil
}

func (r *receiver) SendLogs(ctx context.Context, logs plog.Logs) error {
	r.logs = append(r.logs, logs.LogRecordCount())
	return r.take(ctx)
}

func (r *receiver) SendTraces(ctx context.Context, traces ptrace.Traces) error {
	r.spans = append(r.spans, traces.SpanCount())
	return r.take(ctx)
}

func (*receiver) Close() error { return nil }

// fiveRecords are of six events, a second apart: the first one has two.
func fiveRecords() []Record {
	return Records([]Event{
		chunkOf("1", 100, "a"), chunkOf("1", 101, "b"), chunkOf("2", 102, "c"), chunkOf("1", 103, "d"), chunkOf("2", 104, "e"),
		endOf("1", 105, ""),
	}, Options{Form: Array, ChunksPerRecord: 9})
}

var atOnce = Plan{Signal: AsLogs, BatchSize: 2, Timeout: time.Minute}

func TestSend(t *testing.T) {
	for _, signal := range []Signal{AsLogs, AsTraces} {
		t.Run(string(signal), func(t *testing.T) {
			var r receiver
			plan := atOnce
			plan.Signal = signal
			var sent []int
			plan.Sent = func(events int) { sent = append(sent, events) }
			events, err := Send(t.Context(), &r, fiveRecords(), plan)
			require.NoError(t, err)
			assert.Equal(t, 6, events)
			assert.Equal(t, []int{3, 2, 1}, sent, "in events")
			batches := map[Signal][]int{AsLogs: r.logs, AsTraces: r.spans}
			assert.Equal(t, map[Signal][]int{AsLogs: nil, AsTraces: nil, signal: {2, 2, 1}}, batches, "in records")
		})
	}
}

func TestSendNothing(t *testing.T) {
	var r receiver
	events, err := Send(t.Context(), &r, nil, atOnce)
	assert.NoError(t, err)
	assert.Zero(t, events)
	assert.Empty(t, r.times)
}

// What was not taken is not tried again, and nothing is sent after it: who sends wants to know.
func TestSendStops(t *testing.T) {
	r := receiver{refuse: 2}
	events, err := Send(t.Context(), &r, fiveRecords(), atOnce)
	assert.Equal(t, 3, events)
	assert.ErrorIs(t, err, errRefused)
	assert.ErrorContains(t, err, "after 3 events")
	assert.Len(t, r.times, 2)
}

// The pace is that of the records' times: a batch is sent once the time of its last record has come.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		name  string
		speed float64
		want  []time.Duration
	}{
		{"at once", 0, []time.Duration{0, 0, 0}},
		{"as recorded", 1, []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second}},
		{"twice as fast", 2, []time.Duration{time.Second, 2 * time.Second, 2500 * time.Millisecond}},
		{"half as fast", 0.5, []time.Duration{4 * time.Second, 8 * time.Second, 10 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := receiver{started: time.Now()}
				plan := atOnce
				plan.Speed = test.speed
				_, err := Send(t.Context(), &r, fiveRecords(), plan)
				require.NoError(t, err)
				assert.Equal(t, test.want, r.times)
			})
		})
	}
}

func TestSendIsCancelled(t *testing.T) {
	for _, speed := range []float64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			plan := atOnce
			plan.Speed = speed
			plan.Sent = func(int) { cancel() }
			events, err := Send(ctx, &receiver{}, fiveRecords(), plan)
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 3, events, "the batch before")
		})
	}
}

func TestSendTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		_, err := Send(t.Context(), &receiver{hang: true}, fiveRecords(), atOnce)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(started))
	})
}
