package upkeep

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
	"github.com/otel-rawoutput/rawoutput/internal/hourly"
)

// working is a keeper that works beside a writer, as in the exporter.
type working struct {
	*Keeper
	*hourly.Writer
	spy *spy
}

// work lets both work on a disk until the test ends.
func work(t *testing.T, d disk.FS, o Options) working {
	s := &spy{}
	k := New(d, o, s)
	w := hourly.NewWriter(d, hourly.Options{
		Permissions: hourly.Permissions{File: 0o640, Directory: 0o750}, MaxOpen: 16, Interval: time.Minute, MinFree: o.MinFree, Recognizable: true,
	}, observer{Keeper: k})
	w.Start()
	k.Start()
	t.Cleanup(func() {
		k.Close()
		w.Close()
	})
	return working{k, w, s}
}

// observer tells the keeper what the writer says of free bytes.
type observer struct{ *Keeper }

func (o observer) Refused(bytes int64) { o.MakeRoom(bytes) }

func (observer) Opened(int)               {}
func (observer) Wrote(time.Duration)      {}
func (observer) Synced(time.Duration)     {}
func (observer) SyncFailed(error)         {}
func (observer) TookSuffix(string, error) {}
func (observer) RolledBack()              {}
func (observer) TornTail(int64)           {}

func (w working) append(bytes int) error {
	return w.Append(hourly.Key{Hour: "2026-11-05T00", PID: 1}, []byte(strings.Repeat("x", bytes-1)+"\n"))
}

// fill puts so many closed files there, of so many bytes, and a disk around them with room for so many bytes more. The first
// is the oldest.
func fill(t *testing.T, d *disktest.Disk, files, bytes, room int) {
	for i := range files {
		put(t, d, closed(i), strings.Repeat("x", bytes-1)+"\n", -100*time.Hour+time.Duration(i)*time.Minute)
	}
	d.Capacity = int64(files*bytes + room)
}

func closed(i int) string { return fmt.Sprintf("%s/raw-%d-abcdefghij234.jsonl", hour, i+1) }

// left is how many closed files are left.
func left(d *disktest.Disk) (n int) {
	for _, path := range d.Files() {
		if strings.HasPrefix(path, hour) {
			n++
		}
	}
	return n
}

// While there is something to remove, nothing is refused, and no more is removed than must be.
func TestRoomForAWriter(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		const minFree, files, size = 150_000, 200, 100_000
		fill(t, d, files, size, minFree+50_000)
		w := work(t, d.Process(), Options{MinFree: minFree})
		const seconds, bytes = 600, 5000
		for range seconds {
			time.Sleep(time.Second)
			require.NoError(t, w.append(bytes))
		}
		synctest.Wait()
		removed := files - left(d)
		assert.InDelta(t, seconds*bytes/size, removed, 1)
		assert.Empty(t, d.Content(closed(0)), "the oldest are gone")
		assert.NotEmpty(t, d.Content(closed(removed)))
	})
}

// Another program takes what is free, whenever that is after a round: there is room again soon.
func TestAnotherProgramFillsTheDisk(t *testing.T) {
	for _, after := range []time.Duration{0, settling, 35 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, d *disktest.Disk) {
				fill(t, d, 20, 1000, 10_000)
				w := work(t, d.Process(), Options{MinFree: 5000})
				time.Sleep(after)
				synctest.Wait()
				d.Append("other/file", strings.Repeat("x", 9000), time.Now())
				require.ErrorIs(t, w.append(100), hourly.ErrReserved)
				time.Sleep(2 * settling)
				require.NoError(t, w.append(100))
				assert.Equal(t, 20-5, left(d), "4000 bytes were missing, and a tenth of 5000 is to be spare")
			})
		})
	}
}

// The same, just when a round found enough: the next one is not put off for it.
func TestAnotherProgramFillsTheDiskDuringARound(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		fill(t, d, 20, 1000, 10_000)
		d.SetThen(func(call disktest.Call, _ string) {
			if call == disktest.Free {
				d.SetThen(nil)
				d.Append("other/file", strings.Repeat("x", 9000), time.Now())
			}
		})
		k := New(d.Process(), Options{MinFree: 5000}, &spy{})
		k.Start()
		defer k.Close()
		synctest.Wait()
		assert.Equal(t, 20, left(d))
		k.Free(1000)
		synctest.Wait()
		assert.Equal(t, 20-5, left(d))
	})
}

// What is larger than what is spare gets its room too, but not where all files together would not make it.
func TestRoomForALargeBatch(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		fill(t, d, 20, 1000, 1000)
		w := work(t, d.Process(), Options{MinFree: 1000})
		time.Sleep(time.Hour)
		before := left(d)
		require.ErrorIs(t, w.append(25_000), hourly.ErrReserved)
		time.Sleep(time.Hour)
		assert.Equal(t, before, left(d), "nothing was removed in vain")
		require.ErrorIs(t, w.append(5000), hourly.ErrReserved)
		time.Sleep(time.Minute)
		require.NoError(t, w.append(5000))
		assert.Equal(t, 20-6, left(d))
	})
}

// lazy is a file system that gives back what was removed some seconds later, as Btrfs and ZFS do.
type lazy struct {
	*disktest.Process
	commits  time.Duration // so much lies between two
	free     int64
	measured time.Time
}

func (l *lazy) Free() (int64, error) {
	if time.Since(l.measured) >= l.commits {
		l.free, _ = l.Process.Free()
		l.measured = time.Now()
	}
	return l.free, nil
}

func TestSpaceThatIsFreeLater(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		fill(t, d, 100, 1000, 0)
		k := New(&lazy{Process: d.Process(), commits: 30 * time.Second}, Options{MinFree: 10_000}, &spy{})
		k.Start()
		defer k.Close()
		for range 120 {
			time.Sleep(time.Second)
			k.Free(0) // a writer asks again and again
			k.MakeRoom(0)
		}
		assert.Equal(t, 100-11, left(d))
	})
}

// To look for what to remove costs: where nothing is found it is not done again at once.
func TestNothingToRemove(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		d.Capacity = 1000
		var rounds atomic.Int32
		d.SetThen(func(call disktest.Call, path string) {
			if call == disktest.Walk && path == "." {
				rounds.Add(1)
			}
		})
		w := work(t, d.Process(), Options{MinFree: 1000})
		for range 600 {
			time.Sleep(time.Second)
			require.ErrorIs(t, w.append(100), hourly.ErrReserved)
		}
		assert.LessOrEqual(t, rounds.Load(), int32(30))
	})
}

// Retention does not wait until a large file is compressed.
func TestRetentionWhileCompressing(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		const old = "2026-11-04T04/raw-1.jsonl"
		put(t, d, marked, "a line of a large file\n", longAgo)
		compressing := make(chan struct{})
		d.SetThen(func(call disktest.Call, path string) {
			if call == disktest.ReadAt && path == marked {
				<-compressing
			}
		})
		k := New(d.Process(), Options{Compress: true, MaxBytes: 30}, &spy{})
		k.Start()
		defer k.Close()
		time.Sleep(time.Second)
		put(t, d, old, "a line that came meanwhile\n", -100*time.Hour)
		time.Sleep(interval)
		synctest.Wait()
		assert.Equal(t, []string{marked}, d.Files())
		close(compressing)
	})
}

// noise is what can't be compressed.
func noise(bytes int) string {
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, bytes)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	content[bytes-1] = '\n'
	return string(content)
}

// A file is not compressed where there is no room for it twice, and is when there is.
func TestCompressWithoutRoom(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		const others = "other/file"
		fill(t, d, 1, 1000, 1000)
		d.Append(others, strings.Repeat("x", 500), time.Now())
		k := New(d.Process(), Options{Compress: true}, &spy{})
		k.Start()
		defer k.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{closed(0), others}, d.Files())
		d.Move(others, "")
		time.Sleep(interval)
		synctest.Wait()
		assert.Equal(t, []string{closed(0) + ".zst"}, d.Files())
	})
}

// What is to stay free stays so while a file is compressed, and its lines are not removed to have room for themselves.
func TestCompressLeavesBytesFree(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		const minFree, size = 10_000_000, 2_000_000
		put(t, d, marked, noise(size), longAgo)
		d.Capacity = size + minFree + minFree/10 + size/4
		least := d.Capacity
		p := d.Process()
		d.SetThen(func(call disktest.Call, _ string) {
			if call == disktest.Write {
				free, err := d.Process().Free()
				require.NoError(t, err)
				least = min(least, free)
			}
		})
		s := &spy{}
		k := New(p, Options{Compress: true, MinFree: minFree}, s)
		k.Start()
		defer k.Close()
		time.Sleep(3 * interval)
		synctest.Wait()
		assert.Equal(t, []string{marked}, d.Files())
		assert.Less(t, least, d.Capacity-size, "it was tried")
		assert.GreaterOrEqual(t, least, int64(minFree))
		require.NotEmpty(t, s.failed)
		assert.ErrorIs(t, s.failed[0], errNoRoom)
	})
}

// A round removes a part of the files for their age, whatever the clock says.
func TestClockJumps(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		for i := range 200 {
			put(t, d, closed(i), "a\n", -100*time.Hour)
		}
		keep(d, Options{MaxAge: time.Hour}, time.Second)
		assert.Equal(t, 200-30, left(d))
		keep(d, Options{MaxAge: time.Hour}, time.Hour)
		assert.Zero(t, left(d))
	})
}

// Another user's hook writes beside: nothing is said of its files, each minute anew.
func TestFilesOfAnotherUser(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, theirs, "of the hook\n", longAgo)
		put(t, d, marked, "ours\n", longAgo)
		d.SetFault(func(call disktest.Call, path string) (func(int) int, error) {
			if call == disktest.Open && path == theirs {
				return nil, fs.ErrPermission
			}
			return nil, nil
		})
		s := keep(d, Options{MaxAge: time.Hour, Compress: true}, time.Hour)
		assert.Equal(t, []string{theirs}, d.Files())
		assert.Empty(t, s.failed)
	})
}

// What could not be looked at is looked at again.
func TestRepairAfterAFault(t *testing.T) {
	for _, fails := range []struct {
		call disktest.Call
		path string
	}{
		{disktest.Walk, "."}, {disktest.Walk, hour}, {disktest.Locks, hour}, {disktest.Open, marked}, {disktest.Lock, marked}, {disktest.Truncate, marked},
	} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			bubble(t, func(t *testing.T, d *disktest.Disk) {
				put(t, d, marked, "whole\ntorn", -time.Hour)
				failed := false
				d.SetFault(func(call disktest.Call, path string) (func(int) int, error) {
					if failed || call != fails.call || path != fails.path {
						return nil, nil
					}
					failed = true
					return nil, disktest.ErrFault
				})
				keep(d, Options{}, 2*interval)
				require.True(t, failed)
				assert.Equal(t, "whole\n", d.Content(marked))
			})
		})
	}
}

// A file to look at again that is removed meanwhile is forgotten.
func TestLaterIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, "whole\ntorn", 0)
		k := New(d.Process(), Options{}, &spy{})
		k.Start()
		synctest.Wait()
		d.Move(marked, "")
		time.Sleep(2 * interval)
		synctest.Wait()
		k.Close()
		assert.Empty(t, k.later)
	})
}
