// Package gate lets a component's Shutdown wait for the calls that are still inside it, and keeps later ones out; and it
// bounds what Shutdown waits for.
package gate // import "github.com/otel-rawoutput/rawoutput/internal/gate"

import (
	"context"
	"sync"
	"time"
)

// Gate counts the calls inside. The zero value is open.
type Gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // made by Close, closed by the last call that leaves
}

// Enter reports whether the caller may go in; it then must Leave.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// leftInside returns the context's error if anybody is inside: nobody needs to be waited for where the context was done
// from the start.
func (g *Gate) leftInside(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside == 0 {
		return nil
	}
	return context.Cause(ctx)
}

// Close lets nobody in any more and waits until nobody is inside, or returns the context's error if that takes too long.
// It must be called once only.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.empty = make(chan struct{})
	if g.inside == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	select {
	case <-g.empty:
	case <-ctx.Done():
		return g.leftInside(ctx)
	}
	return nil
}

// WaitFor waits for f, and returns its error. Where the context ends before, f gets a grace to return all the same; after that
// WaitFor returns the context's error, and f goes on by itself.
func WaitFor(ctx context.Context, grace time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return context.Cause(ctx)
	}
}
