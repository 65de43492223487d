// Package gate lets a component's Shutdown wait for the calls that are still inside it, and keeps later ones out.
package gate // import "github.com/otel-rawoutput/rawoutput/internal/gate"

import (
	"context"
	"sync"
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
