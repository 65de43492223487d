package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/collector"
	generator "github.com/otel-rawoutput/rawoutput/internal/load"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// cost is what a Collector took for a load.
type cost struct {
	cpu    time.Duration // user and system, without what it takes to start and to stop
	wall   time.Duration // until the last request was answered
	memory int64         // bytes at the most
	chunks int
}

// microsPerChunk is the CPU time a chunk; it is also the CPU seconds a million chunks.
func (c cost) microsPerChunk() float64 { return float64(c.cpu.Microseconds()) / float64(c.chunks) }

func (c cost) perSecond() float64 { return float64(c.chunks) / c.wall.Seconds() }

// result is what a subject took, by round.
type result struct {
	subject subject
	costs   []cost
}

// measure gives each subject the load, as often as there are rounds.
func measure(ctx context.Context, p places, l load, rounds, chunks int) ([]*result, error) {
	var results []*result
	for _, s := range subjects {
		if !s.spansOnly || l.signal == replay.AsTraces {
			results = append(results, &result{subject: s})
		}
	}
	for range rounds {
		for _, r := range results {
			c, err := p.run(ctx, r.subject, l, l.outputs(chunks))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.subject.name, err)
			}
			idle, err := p.run(ctx, r.subject, l, 0)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.subject.name, err)
			}
			c.cpu -= idle.cpu
			r.costs = append(r.costs, c)
		}
	}
	return results, nil
}

// run starts a Collector, sends it outputs, stops it, and says what it took.
func (p places) run(ctx context.Context, s subject, l load, outputs int) (cost, error) {
	c, err := p.start(ctx, s, l.signal, p.profile(s, l, outputs))
	if err != nil {
		return cost{}, err
	}
	defer c.end()
	began := time.Now()
	if outputs > 0 {
		if err := send(ctx, l, outputs, c.connect); err != nil {
			return cost{}, err
		}
	}
	wall := time.Since(began)
	memory, err := peakMemory(c.PID())
	if err != nil {
		return cost{}, err
	}
	if err := c.Stop(ctx); err != nil {
		return cost{}, err
	}
	state := c.State()
	return cost{cpu: state.UserTime() + state.SystemTime(), wall: wall, memory: memory, chunks: outputs * l.chunksPerOutput}, nil
}

// running is a Collector that runs, and the directory that is its own.
type running struct {
	*collector.Collector
	directory string
}

func (p places) start(ctx context.Context, s subject, signal replay.Signal, profile string) (*running, error) {
	directory, err := os.MkdirTemp(p.scratch, "run")
	if err != nil {
		return nil, err
	}
	r := &running{directory: directory}
	path := p.ours
	if s.peers {
		path = p.peers
	}
	r.Collector, err = collector.Start(ctx, path, []string{s.config(string(signal), r.socket(), directory, profile)})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	return r, nil
}

func (r *running) socket() string { return filepath.Join(r.directory, "otlp") }

func (r *running) connect() (otlpclient.Client, error) {
	return otlpclient.NewGRPC(otlpclient.Options{Endpoint: "unix:" + r.socket()})
}

// end ends the Collector, if it still runs, and removes what it wrote.
func (r *running) end() {
	r.Kill()
	_ = os.RemoveAll(r.directory)
}

// profile is the path of the profile of a run, or empty where none is wanted: the Collector with the peers cannot make one.
func (p places) profile(s subject, l load, outputs int) string {
	if p.profiles == "" || s.peers || outputs == 0 {
		return ""
	}
	return filepath.Join(p.profiles, strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(l.name+" "+s.name+".pprof"))
}

// send sends the outputs, as so many servers would.
func send(ctx context.Context, l load, outputs int, connect func() (otlpclient.Client, error)) error {
	plan := generator.Plan{
		Shape: generator.Shape{
			Run: "bench", Outputs: outputs, N: 1, Chunks: l.chunksPerOutput, ChunksPerRecord: l.chunksPerRecord, Form: l.form,
			Unnumbered: !l.numbered,
		},
		Senders: l.senders, InFlight: l.inFlight, BatchSize: 64, Signal: l.signal, Timeout: time.Minute,
		Resource: map[string]string{"service.name": "bench"},
	}
	_, err := generator.Run(ctx, plan, connect)
	return err
}
