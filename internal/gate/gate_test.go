package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closing calls Close in the background, and returns where its result will be.
func closing(ctx context.Context, g *Gate) <-chan error {
	closed := make(chan error, 1)
	go func() { closed <- g.Close(ctx) }()
	return closed
}

func assertWaits(t *testing.T, closed <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait: %v", err)
	default:
	}
}

func TestNobodyInside(t *testing.T) {
	var g Gate
	require.NoError(t, g.Close(t.Context()))
	assert.False(t, g.Enter())
	assert.False(t, g.Enter(), "it stays closed")
}

func TestAllHaveLeft(t *testing.T) {
	var g Gate
	for range 3 {
		require.True(t, g.Enter())
	}
	for range 3 {
		g.Leave()
	}
	assert.NoError(t, g.Close(t.Context()))
}

func TestCloseWaitsForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		require.True(t, g.Enter())
		require.True(t, g.Enter())
		closed := closing(t.Context(), &g)
		assertWaits(t, closed)
		assert.False(t, g.Enter(), "nobody comes in while it waits")
		g.Leave()
		assertWaits(t, closed)
		g.Leave()
		assert.NoError(t, <-closed)
		assert.False(t, g.Enter())
	})
}

func TestCloseGivesUp(t *testing.T) {
	cause := errors.New("no time left")
	for _, test := range []struct {
		name    string
		context func(context.Context) (context.Context, context.CancelFunc)
		want    error
	}{
		{"at a deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		}, context.DeadlineExceeded},
		{"with the cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Hour, cause)
		}, cause},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := test.context(t.Context())
				defer cancel()
				var g Gate
				require.True(t, g.Enter())
				started := time.Now()
				assert.ErrorIs(t, g.Close(ctx), test.want)
				assert.Equal(t, time.Hour, time.Since(started))
				assert.False(t, g.Enter(), "it is closed all the same")
				g.Leave() // whoever is still inside may go in peace
			})
		})
	}
}

// A context that is done already is no reason to fail where there is nobody to wait for. Many times: what is decided by
// chance would go well now and then.
func TestCloseWithADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		var empty Gate
		if !assert.NoError(t, empty.Close(ctx)) {
			return
		}
	}
	var g Gate
	require.True(t, g.Enter())
	assert.ErrorIs(t, g.Close(ctx), context.Canceled)
	g.Leave()
}

// Many come and go while the gate closes: when Close returns, nobody is inside.
func TestCloseUnderTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		inside := make(chan struct{}, 1000)
		for i := range 100 {
			go func() {
				for g.Enter() {
					inside <- struct{}{}
					<-time.After(time.Duration(i+1) * time.Millisecond)
					<-inside
					g.Leave()
				}
			}()
		}
		<-time.After(50 * time.Millisecond)
		require.NoError(t, g.Close(t.Context()))
		assert.Empty(t, inside)
		synctest.Wait() // nobody comes back
	})
}
