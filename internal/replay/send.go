package replay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
)

// Signal is what records are sent as.
type Signal string

// The signals.
const (
	AsLogs   Signal = "logs"
	AsTraces Signal = "traces"
)

// Plan says how records are sent.
type Plan struct {
	Signal    Signal
	BatchSize int           // records a batch; at least 1
	Speed     float64       // 1 is the pace of the records' times, 2 twice as fast; 0 is at once
	Timeout   time.Duration // to wait for the answer to a batch
	Resource  map[string]string
	Sent      func(events int) // called after each batch; may be nil
}

// Send sends the records, a batch after the other, each once the one before was answered. It stops at the first batch that
// is not taken, and returns how many events were sent before.
func Send(ctx context.Context, client otlpclient.Client, records []Record, plan Plan) (events int, err error) {
	if len(records) == 0 {
		return 0, nil
	}
	pace := pacer{started: time.Now(), first: records[0].events[0].Time, speed: plan.Speed}
	for batch := range slices.Chunk(records, plan.BatchSize) {
		if err := pace.wait(ctx, batch[len(batch)-1].Time()); err != nil {
			return events, err
		}
		if err := Post(ctx, client, batch, plan.Signal, plan.Resource, plan.Timeout); err != nil {
			return events, fmt.Errorf("after %d events: %w", events, err)
		}
		n := 0
		for _, r := range batch {
			n += r.Len()
		}
		events += n
		if plan.Sent != nil {
			plan.Sent(n)
		}
	}
	return events, nil
}

// Post sends records in one batch, and waits for the answer until the timeout.
func Post(ctx context.Context, client otlpclient.Client, records []Record, signal Signal, resource map[string]string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if signal == AsTraces {
		return client.SendTraces(ctx, Traces(records, resource))
	}
	return client.SendLogs(ctx, Logs(records, resource))
}

// pacer waits as long as the recorded server did.
type pacer struct {
	started time.Time
	first   uint64 // the time of the first event
	speed   float64
}

// wait waits until it is time for an event of that time.
func (p *pacer) wait(ctx context.Context, at uint64) error {
	if p.speed == 0 || at <= p.first {
		return ctx.Err()
	}
	return WaitUntil(ctx, p.started.Add(time.Duration(float64(at-p.first)/p.speed)))
}

// WaitUntil waits until it is that time, or returns the context's error.
func WaitUntil(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
