package hourly

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

// slowSync is a disk whose first sync of a file takes until it is let go on.
type slowSync struct {
	*fixture
	syncing chan struct{} // closed when it has begun
	goOn    func()
	wrote   chan string // the path of each write
	mu      sync.Mutex  // guards syncs
	syncs   int         // of the file
}

func withSlowSync(o Options) *slowSync {
	s := &slowSync{fixture: on(disktest.New(), o), syncing: make(chan struct{}), wrote: make(chan string, 100)}
	wait := make(chan struct{})
	s.goOn = sync.OnceFunc(func() { close(wait) })
	s.disk.SetThen(func(call disktest.Call, path string) {
		switch {
		case call == disktest.Write:
			s.wrote <- path
		case call == disktest.Sync && path == file && s.count() == 1:
			close(s.syncing)
			<-wait
		}
	})
	return s
}

func (s *slowSync) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs++
	return s.syncs
}

// begin appends to the file, whose sync is under way then.
func (s *slowSync) begin(t *testing.T, all *sync.WaitGroup, lines string) {
	all.Go(func() { assert.NoError(t, s.Append(theKey, []byte(lines))) })
	<-s.syncing
	<-s.wrote
}

func always() Options {
	o := usually()
	o.Sync = SyncAlways
	return o
}

// A file that is being synced holds up nobody who writes to another one.
func TestSyncHoldsUpItsOwnSendersOnly(t *testing.T) {
	s := withSlowSync(always())
	var all sync.WaitGroup
	s.begin(t, &all, "slow\n")
	s.append(t, laterKey, "meanwhile\n")
	s.append(t, Key{hour, 1}, "meanwhile\n")
	assert.Equal(t, "meanwhile\n", afterPowerCut(s.disk, later+"/"+name))
	s.goOn()
	all.Wait()
	s.Close()
}

// Nor does one that is being synced in the background: its own senders go on too.
func TestSyncInTheBackgroundHoldsUpNobody(t *testing.T) {
	o := usually()
	o.Interval = time.Millisecond
	s := withSlowSync(o)
	s.Start()
	s.append(t, theKey, "a\n")
	<-s.syncing
	s.append(t, theKey, "b\n")
	s.append(t, laterKey, "c\n")
	s.goOn()
	s.Close()
	assert.Equal(t, "a\nb\n", afterPowerCut(s.disk, file))
}

// Those who wait for a file that is being synced share the next sync.
func TestSharedSync(t *testing.T) {
	const senders = 10
	s := withSlowSync(always())
	var all sync.WaitGroup
	s.begin(t, &all, "first\n")
	for i := range senders {
		all.Go(func() {
			assert.NoError(t, s.Append(theKey, fmt.Appendf(nil, "%d\n", i)))
			assert.Contains(t, afterPowerCut(s.disk, file), fmt.Sprintf("\n%d\n", i))
		})
	}
	for range senders {
		<-s.wrote
	}
	s.goOn()
	all.Wait()
	s.Close()
	assert.Equal(t, 2, s.syncs)
}

// Where a shared sync fails it has for all: none of their lines is left, and what was acknowledged before is.
func TestSharedSyncFails(t *testing.T) {
	for name, call := range map[string]disktest.Call{"of the file": disktest.Sync, "of a directory": disktest.SyncDirectory} {
		t.Run(name, func(t *testing.T) {
			const senders = 10
			s := withSlowSync(always())
			var all sync.WaitGroup
			if call == disktest.Sync {
				s.begin(t, &all, "first\n")
			} else {
				all.Go(func() { assert.ErrorIs(t, s.Append(theKey, []byte("first\n")), disktest.ErrFault) })
				<-s.syncing
				<-s.wrote
			}
			for i := range senders {
				all.Go(func() {
					err := s.Append(theKey, fmt.Appendf(nil, "%d\n", i))
					assert.ErrorIs(t, err, disktest.ErrFault)
					assert.NotErrorIs(t, err, ErrUncertain)
				})
			}
			for range senders {
				<-s.wrote
			}
			s.disk.SetFault(failing(call))
			s.goOn()
			all.Wait()
			s.disk.SetFault(nil)
			s.append(t, theKey, "again\n")
			s.Close()
			if call == disktest.Sync {
				assert.Equal(t, "first\n", s.disk.Content(file))
				assert.Equal(t, "again\n", s.disk.Content(suffixed(t, s.disk, hour)))
			} else {
				assert.Equal(t, "again\n", s.disk.Content(file))
			}
			assert.Equal(t, 1, s.spy.rolledBack)
		})
	}
}

// A file that is being synced is not closed to make room for another one: its lock would stay, and our own name be taken.
func TestMakeRoom(t *testing.T) {
	for policyName, policy := range map[string]SyncPolicy{"interval": SyncInterval, "always": SyncAlways} {
		t.Run(policyName, func(t *testing.T) {
			o := usually()
			o.Sync, o.MaxOpen, o.Interval = policy, 1, time.Millisecond
			s := withSlowSync(o)
			s.Start()
			var all sync.WaitGroup
			all.Go(func() { assert.NoError(t, s.Append(theKey, []byte("a\n"))) })
			<-s.syncing
			all.Go(func() { assert.NoError(t, s.Append(laterKey, []byte("b\n"))) })
			for !s.isRetired(theKey) { // until the other one waits
				runtime.Gosched()
			}
			s.goOn()
			all.Wait()
			s.Close()
			assert.Equal(t, 1, s.spy.mostOpen)
			assert.Equal(t, []string{file, later + "/" + name}, s.disk.Files(), "no name was taken by ourselves")
		})
	}
}

func (f *fixture) isRetired(key Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, ok := f.open[key]
	return ok && file.retired
}

// Close waits for those who write, and lets none begin.
func TestCloseWaits(t *testing.T) {
	s := withSlowSync(always())
	var all sync.WaitGroup
	s.begin(t, &all, "a\n")
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	for !s.isClosed() {
		runtime.Gosched()
	}
	assert.ErrorIs(t, s.Append(laterKey, []byte("late\n")), ErrClosed)
	assert.Equal(t, 1, s.process.OpenFiles())
	s.goOn()
	<-closed
	all.Wait()
	assert.Zero(t, s.process.OpenFiles())
	assert.Equal(t, "a\n", afterPowerCut(s.disk, file))
}

func (f *fixture) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// TestManySenders lets many write to more files than may be open, while one call in a hundred fails. What was acknowledged is
// there, once, and what was not is not.
func TestManySenders(t *testing.T) {
	const senders, appends = 8, 200
	for policyName, policy := range map[string]SyncPolicy{"never": SyncNever, "interval": SyncInterval, "always": SyncAlways} {
		for maxOpen := 1; maxOpen <= 3; maxOpen++ {
			t.Run(fmt.Sprint(policyName, " ", maxOpen), func(t *testing.T) {
				o := usually()
				o.Sync, o.MaxOpen, o.Interval = policy, maxOpen, time.Millisecond
				f := on(disktest.New(), o)
				f.disk.SetFault(oneIn(100))
				f.Start()
				keys := []Key{theKey, laterKey, {"2026-11-04T07", pid}, {hour, 1}, {hour, 2}}
				var known sync.Map // how often each piece must be there
				var all sync.WaitGroup
				for sender := range senders {
					random := rand.New(rand.NewPCG(uint64(sender), 1))
					all.Go(func() {
						for i := range appends {
							piece := fmt.Sprintf("piece %d of sender %d\nits second line\n", i, sender)
							err := f.Append(keys[random.IntN(len(keys))], []byte(piece))
							known.Store(piece, countOf(err))
						}
					})
				}
				all.Wait()
				f.disk.SetFault(nil)
				f.Close()
				assert.LessOrEqual(t, f.spy.mostOpen, maxOpen)
				assert.Zero(t, f.process.OpenFiles())
				content := contentOfAll(f.disk)
				known.Range(func(piece, count any) bool {
					if count == uncertain {
						return true
					}
					return assert.Equal(t, count, strings.Count(content, "\n"+piece.(string)), piece)
				})
			})
		}
	}
}

func countOf(err error) any {
	switch {
	case err == nil:
		return 1
	case errors.Is(err, ErrUncertain):
		return uncertain
	}
	return 0
}

// oneIn lets one call in n fail.
func oneIn(n int) func(disktest.Call, string) (func(int) int, error) {
	random := rand.New(rand.NewPCG(1, 2)) // it is used under the lock of the disk
	return func(disktest.Call, string) (func(int) int, error) {
		if random.IntN(n) > 0 {
			return nil, nil
		}
		return func(bytes int) int { return random.IntN(bytes + 1) }, disktest.ErrFault
	}
}
