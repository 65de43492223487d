package load

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// Plan says how what is generated is sent.
type Plan struct {
	Shape
	Senders   int // each a server with a connection of its own
	InFlight  int // outputs in flight, of all senders together
	BatchSize int // records a request
	Copies    float64
	Disorder  int     // records
	Rate      float64 // chunks a second, of all senders together; 0 is as fast as possible
	Signal    replay.Signal
	Resource  map[string]string
	Timeout   time.Duration // to wait for the answer to a request
	Seed      uint64
	Sent      func(chunks int) // called after each request, by several at once; may be nil
}

// Result is what was sent.
type Result struct {
	Chunks, Records, Requests int64
	Took                      time.Duration
}

// Run sends everything. connect is called for each sender. It stops at the first request that is not taken.
func Run(ctx context.Context, plan Plan, connect func() (otlpclient.Client, error)) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var result Result
	var wg sync.WaitGroup
	started := time.Now()
	for i := range plan.Senders {
		wg.Go(func() {
			if err := plan.sender(i, started, &result).run(ctx, connect); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	result.Took = time.Since(started)
	return result, context.Cause(ctx)
}

// sender is one server.
type sender struct {
	plan     *Plan
	resource map[string]string
	stream   *stream
	network  network
	rate     float64 // chunks a second; 0 is as fast as possible
	started  time.Time
	chunks   int // sent so far
	result   *Result
}

// sender returns the i-th. It has its share of the requests, all outputs of a request in one.
func (p *Plan) sender(i int, started time.Time, result *Result) *sender {
	requests := p.Outputs / p.N
	first, last := requests*i/p.Senders, requests*(i+1)/p.Senders
	resource := maps.Clone(p.Resource)
	resource["service.instance.id"] = fmt.Sprintf("%s-%d", p.Run, i)
	return &sender{
		plan: p, resource: resource, started: started, result: result,
		rate:    p.Rate * float64(last-first) / float64(requests), // so that all end at the same time
		stream:  newStream(&p.Shape, first*p.N, last*p.N, max(p.InFlight/p.Senders, 1)),
		network: network{copies: p.Copies, disorder: p.Disorder, random: rand.New(rand.NewPCG(p.Seed, uint64(i)))},
	}
}

func (s *sender) run(ctx context.Context, connect func() (otlpclient.Client, error)) error {
	client, err := connect()
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		batch, chunks := s.batch()
		if len(batch) == 0 {
			return nil
		}
		if err := s.pace(ctx, chunks); err != nil {
			return err
		}
		if err := replay.Post(ctx, client, batch, s.plan.Signal, s.resource, s.plan.Timeout); err != nil {
			return fmt.Errorf("after %d chunks of one sender: %w", s.chunks, err)
		}
		s.count(len(batch), chunks)
	}
}

// batch returns what arrives next, and how many chunks that is, copies left out.
func (s *sender) batch() (batch []replay.Record, chunks int) {
	isOver := false
	for len(batch) < s.plan.BatchSize {
		if d, ok := s.network.next(isOver); ok {
			batch = append(batch, d.record)
			chunks += d.chunks
			continue
		}
		if isOver {
			break
		}
		if record, n, ok := s.stream.record(); ok {
			s.network.add(record, n)
		} else {
			isOver = true
		}
	}
	return batch, chunks
}

// pace waits until it is time for that many more chunks.
func (s *sender) pace(ctx context.Context, chunks int) error {
	if s.rate == 0 {
		return ctx.Err()
	}
	due := float64(s.chunks+chunks) / s.rate
	return replay.WaitUntil(ctx, s.started.Add(time.Duration(due*float64(time.Second))))
}

func (s *sender) count(records, chunks int) {
	s.chunks += chunks
	atomic.AddInt64(&s.result.Chunks, int64(chunks))
	atomic.AddInt64(&s.result.Records, int64(records))
	atomic.AddInt64(&s.result.Requests, 1)
	if s.plan.Sent != nil {
		s.plan.Sent(chunks)
	}
}
