package hourly

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

// world is a disk with two writers and what is known of the lines that they were given.
type world struct {
	t       *testing.T
	random  *rand.Rand
	disk    *disktest.Disk
	writers [2]*fixture
	options Options
	pieces  map[string]certainty // what is known of each piece
	known   map[string]bool      // the lines that may be there
	next    int                  // number of a piece
	moved   int
}

// certainty is what must be true of a piece of lines.
type certainty int

const (
	written   certainty = iota // it is there, once
	uncertain                  // it may be there or not, and in part
)

// TestModel does random things, for many seeds: batches, changes of the hour, faults, kills, moves, a hook that writes without
// a lock. At each end no line is broken, and what was acknowledged is there, once.
func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomly(t, seed) })
		})
	}
}

func randomly(t *testing.T, seed uint64) {
	o := usually()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), disk: disktest.New(), pieces: map[string]certainty{}, known: map[string]bool{"the end\n": true}}
	o.Sync = []SyncPolicy{SyncNever, SyncInterval, SyncAlways}[w.random.IntN(3)]
	o.MaxOpen = 1 + w.random.IntN(3)
	w.options = o
	for i := range w.writers {
		w.start(i)
	}
	for range 200 {
		w.step()
	}
	w.disk.SetFault(nil)
	for i, writer := range w.writers {
		writer.Close()
		assert.Zero(t, writer.process.OpenFiles(), i)
	}
	w.check()
}

// start begins the life of a process: both have the same pid.
func (w *world) start(i int) {
	w.writers[i] = on(w.disk, w.options)
	w.writers[i].Start()
}

func (w *world) step() {
	i := w.random.IntN(2)
	switch dice := w.random.IntN(100); {
	case dice < 70:
		w.append(w.writers[i])
	case dice < 80:
		time.Sleep(time.Duration(w.random.IntN(3000)) * time.Millisecond)
		synctest.Wait()
	case dice < 82:
		time.Sleep(2 * time.Minute)
		synctest.Wait()
	case dice < 86:
		w.disk.SetFault(nil)
	case dice < 92:
		w.disk.SetFault(w.someFaults())
	case dice < 95:
		w.kill(i)
	case dice < 97:
		w.writers[i].Close()
		w.start(i)
	case dice < 98:
		w.hook()
	default:
		w.move()
	}
}

// hook lets the original hook write a line, without a lock, to the file that it has open. In the middle of it we write too. A
// line behind a torn one is lost with that: nobody could tell.
func (w *world) hook() {
	if before := w.disk.Content(file); before != "" && !strings.HasSuffix(before, "\n") {
		return
	}
	w.next++
	line := fmt.Sprintf("piece %d of the hook\n", w.next)
	w.know(line, written)
	half := w.random.IntN(len(line))
	w.disk.Append(file, line[:half], time.Now())
	w.append(w.writers[w.random.IntN(2)])
	w.disk.Append(file, line[half:], time.Now())
}

// append appends a piece, and tries again what failed for certain, as the exporter does.
func (w *world) append(f *fixture) {
	w.next++
	piece := fmt.Sprintf("piece %d\nof it a second line %d%s\n", w.next, w.next, strings.Repeat("x", w.random.IntN(50)))
	key := []Key{theKey, laterKey, {"2026-11-04T07", pid}}[w.random.IntN(3)]
	err := f.Append(key, []byte(piece))
	for range 2 {
		if err != nil && !errors.Is(err, ErrUncertain) {
			err = f.Append(key, []byte(piece))
		}
	}
	if err == nil {
		w.know(piece, written)
	} else if errors.Is(err, ErrUncertain) {
		w.know(piece, uncertain)
	}
}

func (w *world) know(piece string, c certainty) {
	w.pieces[piece] = c
	for line := range strings.Lines(piece) {
		w.known[line] = true
	}
}

// someFaults lets one call in ten fail.
func (w *world) someFaults() func(disktest.Call, string) (func(int) int, error) {
	random := rand.New(rand.NewPCG(w.random.Uint64(), 2)) // it is used under the lock of the disk
	return func(disktest.Call, string) (func(int) int, error) {
		if random.IntN(10) > 0 {
			return nil, nil
		}
		return func(bytes int) int { return random.IntN(bytes + 1) }, disktest.ErrFault
	}
}

// kill kills a process, half of the times within a write, and starts another one.
func (w *world) kill(i int) {
	f := w.writers[i]
	w.disk.SetFault(nil)
	if w.random.IntN(2) == 0 {
		w.disk.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
			if call == disktest.Write || call == disktest.Truncate { // it gets no further than the write
				return func(bytes int) int { return w.random.IntN(bytes + 1) }, disktest.ErrFault
			}
			return nil, nil
		})
		w.next++
		piece := fmt.Sprintf("piece %d\nwithin which a process is killed %d\n", w.next, w.next)
		require.Error(w.t, f.Append(theKey, []byte(piece)))
		w.know(piece, uncertain)
		w.disk.SetFault(nil)
	}
	f.process.Kill()
	f.stop()
	f.stopped.Wait()
	w.start(i)
}

// move moves a file or an hour away, as somebody who collects them does.
func (w *world) move() {
	paths := append(w.disk.Files(), w.disk.Directories()...)
	if len(paths) == 0 {
		return
	}
	w.moved++
	w.disk.Move(paths[w.random.IntN(len(paths))], fmt.Sprintf("away-%d", w.moved))
	time.Sleep(time.Second) // by then it is noticed
	synctest.Wait()
}

// check opens all files again, as the next start does, and expects whole lines, and what was acknowledged exactly once.
func (w *world) check() {
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	last := on(w.disk, w.options)
	for _, key := range []Key{theKey, laterKey, {"2026-11-04T07", pid}} {
		require.NoError(w.t, last.Append(key, []byte("the end\n")))
	}
	last.Close()
	all := contentOfAll(w.disk)
	for _, path := range w.disk.Files() {
		for line := range strings.Lines(w.disk.Content(path)) { // only the last one of a file can lack its end
			assert.True(w.t, w.known[line] || !strings.HasSuffix(line, "\n"), "%s: %q is no line", path, line)
		}
	}
	for piece, c := range w.pieces {
		n := strings.Count(all, "\n"+piece)
		if c == uncertain {
			assert.LessOrEqual(w.t, n, 1, piece)
		} else {
			assert.Equal(w.t, 1, n, "%q in %q", piece, all)
		}
		all = strings.Replace(all, piece, "", n)
	}
}
