package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

const (
	idleCase = "idle, 50,000 outputs in flight"
	idlers   = 50_000
	// settling is how long the Collector has to collect the garbage of what it received.
	settling = 2 * time.Second
)

// printIdle says what outputs in flight cost of which nothing is heard.
func printIdle(ctx context.Context, w io.Writer, p places, period time.Duration) error {
	with, err := p.idle(ctx, idlers, period)
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintf(w, "\n%s: not measured, as the CPU time of a process that runs can't be had here\n", idleCase)
		return nil
	}
	if err != nil {
		return err
	}
	without, err := p.idle(ctx, 0, period)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s: %.4f CPU s in %v (nothing in flight: %.4f)\n", idleCase, with.Seconds(), period, without.Seconds())
	return nil
}

// idle returns the CPU time that our Collector takes while nothing is sent, with so many outputs in flight.
func (p places) idle(ctx context.Context, outputs int, period time.Duration) (time.Duration, error) {
	c, err := p.start(ctx, ours, replay.AsLogs, "")
	if err != nil {
		return 0, err
	}
	defer c.end()
	if err := c.begin(ctx, outputs); err != nil {
		return 0, err
	}
	if err := pause(ctx, settling); err != nil {
		return 0, err
	}
	before, err := cpuTime(c.PID())
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, period); err != nil {
		return 0, err
	}
	after, err := cpuTime(c.PID())
	if err != nil {
		return 0, err
	}
	return after - before, c.check(ctx, outputs)
}

// begin sends the first chunk of each output.
func (r *running) begin(ctx context.Context, outputs int) error {
	client, err := r.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	events := make([]replay.Event, outputs)
	for i := range events {
		events[i] = replay.Event{
			Type: replay.TypeChunk, Time: uint64(time.Now().UnixNano()), RequestID: replay.ID(fmt.Sprint(i)),
			TextDiff: " token", TokenIDsDiff: []uint32{uint32(i)}, Streaming: true,
		}
	}
	_, err = replay.Send(ctx, client, replay.Records(events, replay.Options{Form: replay.Single}), replay.Plan{
		Signal: replay.AsLogs, BatchSize: 64, Timeout: time.Minute, Resource: map[string]string{"service.name": "bench"},
	})
	return err
}

// check says whether so many outputs are in flight: else it is something else that was measured.
func (r *running) check(ctx context.Context, outputs int) error {
	metrics, err := r.Metrics(ctx)
	if err != nil {
		return err
	}
	if inFlight, ok := metrics.Sum("otelcol_processor_raw_output_pending_outputs"); !ok || inFlight != float64(outputs) {
		return fmt.Errorf("%v outputs are in flight, not %d", inFlight, outputs)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	return replay.WaitUntil(ctx, time.Now().Add(d))
}
