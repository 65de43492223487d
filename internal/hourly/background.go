package hourly

import (
	"context"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/layout"
)

// Idle files are closed, and the free bytes measured, once in lookInterval. A file is idle that was not written to for idle
// and whose hour is over, or for longIdle: a sender whose clock is wrong names hours that never end.
const (
	lookInterval = 10 * time.Second
	idle         = time.Minute
	longIdle     = time.Hour
)

// Start begins what is done in the background. Close ends it.
func (w *Writer) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	w.stopped.Go(func() { w.run(ctx) })
}

func (w *Writer) run(ctx context.Context) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	var syncing <-chan time.Time
	if w.options.Sync == SyncInterval {
		ticker := time.NewTicker(w.options.Interval)
		defer ticker.Stop()
		syncing = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-syncing:
			w.syncAll()
		case <-w.hurry:
			w.syncAll()
		case now := <-look.C:
			w.look(now)
		}
	}
}

func (w *Writer) look(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.measure(now)
	for key, file := range w.open {
		unused := now.Sub(file.used)
		if file.users == 0 && (unused >= longIdle || unused >= idle && isOver(key.Hour, now)) {
			w.retire(file)
		}
	}
}

func isOver(hour string, now time.Time) bool {
	begin, ok := layout.ParseHour(hour)
	return !ok || !now.Before(begin.Add(time.Hour))
}

// Close makes safe what was written and closes all files. It waits for each Append that has begun; one that comes later fails.
func (w *Writer) Close() {
	w.stop()
	w.stopped.Wait()
	w.endAppends()
	if w.options.Sync == SyncInterval {
		w.syncAll()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, file := range w.open {
		w.retire(file)
	}
}

// endAppends lets no Append borrow a file any more, and waits for those that did.
func (w *Writer) endAppends() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	for w.anyInUse() {
		w.changed.Wait()
	}
}

func (w *Writer) anyInUse() bool {
	for _, file := range w.open {
		if file.users > 0 {
			return true
		}
	}
	return false
}
