package hourly

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

// TestEachCallFails lets the first call fail, then the second, and so on until none is left to fail, and tries again what was
// not appended. Whatever failed, all files hold whole lines only, each piece once, the counters are exact, and nothing stays
// open.
func TestEachCallFails(t *testing.T) {
	for name, policy := range map[string]SyncPolicy{"never": SyncNever, "interval": SyncInterval, "always": SyncAlways} {
		for _, percent := range []int{0, 50, 100} {
			t.Run(fmt.Sprintf("%s, %d%% written", name, percent), func(t *testing.T) {
				failed := map[disktest.Call]bool{}
				for n := 1; ; n++ {
					fault := &disktest.Nth{N: n, Percent: percent}
					synctest.Test(t, func(t *testing.T) { failOnce(t, policy, fault) })
					if fault.Failed == "" {
						break
					}
					failed[fault.Failed] = true
				}
				for _, call := range []disktest.Call{
					disktest.Mkdir, disktest.Locks, disktest.Open, disktest.Create, disktest.Lock, disktest.Is, disktest.Mark, disktest.Free,
					disktest.Write, disktest.Stat, disktest.ReadAt, disktest.Truncate, disktest.Close,
				} {
					assert.True(t, failed[call], "%s was to fail", call)
				}
				assert.Equal(t, policy != SyncNever, failed[disktest.Sync])
				assert.Equal(t, policy != SyncNever, failed[disktest.SyncDirectory])
			})
		}
	}
}

// failOnce lets a process go on with what another left, with a torn tail, and then move between hours.
func failOnce(t *testing.T, policy SyncPolicy, fault *disktest.Nth) {
	d := disktest.New()
	left := on(d, usually())
	left.append(t, theKey, "left\n")
	left.process.Kill()
	d.Append(file, "tor", time.Now())
	time.Sleep(time.Millisecond)

	o := usually()
	o.Sync, o.MaxOpen = policy, 1
	f := on(d, o)
	d.SetFault(fault.Fault)
	f.Start()
	pieces := []string{"first\nlines\n", "second\nlines\n", "third\nlines\n", "fourth\nlines\n"}
	for i, piece := range pieces {
		key := theKey
		if i == 1 {
			key = laterKey
		}
		appendTwice(t, f, key, piece)
		time.Sleep(3 * time.Second)
		synctest.Wait()
	}
	f.Close()
	d.SetFault(nil)

	all := contentOfAll(d)
	for _, piece := range append(pieces, "left\n") {
		assert.Equal(t, 1, strings.Count(all, "\n"+piece), "%q in %q after %s failed", piece, all, fault.Failed)
		all = strings.Replace(all, piece, "", 1)
	}
	if left := strings.ReplaceAll(all, "\n", ""); left != "" { // a tail that can't be cut off stays until that is tried again
		assert.Equal(t, "tor", left)
		assert.Contains(t, []disktest.Call{disktest.Truncate, disktest.ReadAt}, fault.Failed)
	}
	assert.Zero(t, f.process.OpenFiles(), "after %s failed", fault.Failed)
	assert.Zero(t, f.spy.open)
	assert.Equal(t, 1, f.spy.mostOpen)
	cut := fault.Failed == disktest.Write && fault.Percent > 0
	syncCut := policy == SyncAlways && (fault.Failed == disktest.Sync || fault.Failed == disktest.SyncDirectory)
	assert.Equal(t, cut || syncCut, f.spy.rolledBack == 1, "after %s failed", fault.Failed)
	syncFailed := fault.Failed == disktest.Sync || fault.Failed == disktest.SyncDirectory || fault.Failed == disktest.Close
	assert.LessOrEqual(t, f.spy.syncsFailed, 1)
	assert.True(t, syncFailed || f.spy.syncsFailed == 0 || fault.Failed == disktest.Open, "after %s failed", fault.Failed)
}

// appendTwice tries again what failed, as the exporter does.
func appendTwice(t *testing.T, f *fixture, key Key, lines string) {
	err := f.Append(key, []byte(lines))
	if err == nil {
		return
	}
	require.ErrorIs(t, err, disktest.ErrFault)
	require.NotErrorIs(t, err, ErrUncertain, "one fault leaves no doubt")
	require.NoError(t, f.Append(key, []byte(lines)))
}

// contentOfAll is what is in all files, an empty line before each.
func contentOfAll(d *disktest.Disk) string {
	var all strings.Builder
	for _, path := range d.Files() {
		all.WriteString("\n" + d.Content(path))
	}
	return all.String()
}

// failing makes each of these calls fail, and half of a write that does so is written.
func failing(calls ...disktest.Call) func(disktest.Call, string) (func(int) int, error) {
	return func(call disktest.Call, _ string) (func(int) int, error) {
		for _, c := range calls {
			if c == call {
				return func(bytes int) int { return bytes / 2 }, disktest.ErrFault
			}
		}
		return nil, nil
	}
}

// Where what was written cannot be cut off again, the error says both, and what comes next is no part of it.
func TestCutFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		defer f.Close()
		f.append(t, theKey, "before\n")
		f.disk.SetFault(failing(disktest.Write, disktest.Truncate))
		err := f.Append(theKey, []byte("torn.\n"))
		assert.ErrorIs(t, err, disktest.ErrFault)
		assert.ErrorIs(t, err, ErrUncertain, "to append it again might double lines")
		f.disk.SetFault(failing(disktest.Truncate))
		f.append(t, theKey, "next\n")
		assert.Equal(t, "before\ntor", f.disk.Content(file))
		assert.Equal(t, "next\n", f.disk.Content(suffixed(t, f.disk, hour)))
		assert.Zero(t, f.spy.rolledBack)
	})
}

// The next start cuts it off, and until then the file is not used: somebody else might be within that line.
func TestCutLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.disk.SetFault(failing(disktest.Write, disktest.Truncate))
		require.ErrorIs(t, f.Append(theKey, []byte("torn.\n")), ErrUncertain)
		f.disk.SetFault(nil)
		f.append(t, theKey, "elsewhere\n")
		f.Close()
		assert.Equal(t, "tor", f.disk.Content(file))
		assert.True(t, f.disk.IsMarked(file), "it is ours all the same")

		time.Sleep(time.Millisecond)
		next := on(f.disk, usually())
		defer next.Close()
		next.append(t, theKey, "next\n")
		assert.Equal(t, "next\n", f.disk.Content(file))
		assert.Equal(t, 1, next.spy.torn)
	})
}

// A full disk: what does not fit is cut off, and it goes on in the same file when there is space.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		defer f.Close()
		f.disk.Capacity = 10
		f.append(t, theKey, "first\n")
		for range 3 {
			assert.Error(t, f.Append(theKey, []byte("too much\n")))
			assert.Equal(t, "first\n", f.disk.Content(file))
		}
		assert.Equal(t, 3, f.spy.rolledBack)
		assert.Equal(t, 4, f.spy.writes, "those that failed took their time too")
		f.disk.Capacity = 100
		f.append(t, theKey, "second\n")
		assert.Equal(t, "first\nsecond\n", f.disk.Content(file))
		assert.Len(t, f.disk.Files(), 1)
	})
}

func TestPrepareFails(t *testing.T) {
	for n := 1; ; n++ {
		fault := &disktest.Nth{N: n}
		f := inMemory()
		f.disk.SetFault(fault.Fault)
		err := f.Prepare()
		if fault.Failed == "" {
			require.NoError(t, err)
			break
		}
		if fault.Failed == disktest.Free {
			assert.NoError(t, err, "nothing depends on it")
			continue
		}
		assert.ErrorIs(t, err, disktest.ErrFault, fault.Failed)
	}
	o := usually()
	o.MinFree = 1
	f := on(disktest.New(), o)
	f.disk.SetFault(failing(disktest.Free))
	assert.ErrorContains(t, f.Prepare(), "how many bytes are free can't be told")
}

// A file whose sync failed is neither synced nor written to again. Others are.
func TestSyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.Start()
		f.append(t, theKey, "perhaps lost\n")
		syncs := 0
		f.disk.SetFault(func(call disktest.Call, path string) (func(int) int, error) {
			if call == disktest.Sync && path == file {
				syncs++
				return nil, disktest.ErrFault
			}
			return nil, nil
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		f.append(t, theKey, "goes on\n")
		f.append(t, laterKey, "another hour\n")
		f.Close()
		assert.Equal(t, 1, syncs)
		assert.Equal(t, 1, f.spy.syncsFailed)
		assert.Equal(t, "perhaps lost\n", f.disk.Content(file))
		assert.Equal(t, "goes on\n", f.disk.Content(suffixed(t, f.disk, hour)))
		assert.Equal(t, "another hour\n", f.disk.Content(later+"/"+name))
	})
}

// With SyncAlways what could not be synced is not appended: it is cut off, and goes to a new file.
func TestSyncAlwaysFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usually()
		o.Sync = SyncAlways
		f := on(disktest.New(), o)
		defer f.Close()
		f.append(t, theKey, "before\n")
		f.disk.SetFault(failing(disktest.Sync))
		for range 5 {
			err := f.Append(theKey, []byte("a\n"))
			assert.ErrorIs(t, err, disktest.ErrFault)
			assert.NotErrorIs(t, err, ErrUncertain)
		}
		f.disk.SetFault(nil)
		f.append(t, theKey, "a\n")
		assert.Equal(t, "before\n", f.disk.Content(file))
		assert.Equal(t, "a\n", f.disk.Content(suffixed(t, f.disk, hour)), "and no empty files are left")
	})
}

// A directory can't be replaced by a new one: it is synced until that works, and until then nothing is acknowledged.
func TestSyncOfADirectoryFails(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncInterval} {
		synctest.Test(t, func(t *testing.T) {
			o := usually()
			o.Sync = policy
			f := on(disktest.New(), o)
			f.Start()
			defer f.Close()
			f.disk.SetFault(failing(disktest.SyncDirectory))
			for range 3 {
				assert.Equal(t, policy == SyncAlways, f.Append(theKey, []byte("a\n")) != nil)
				time.Sleep(time.Second)
				synctest.Wait()
			}
			assert.Empty(t, afterPowerCut(f.disk, file))
			f.disk.SetFault(nil)
			time.Sleep(time.Second)
			synctest.Wait()
			f.append(t, theKey, "b\n")
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Contains(t, afterPowerCut(f.disk, file), "b\n")
			assert.Equal(t, []string{file}, f.disk.Files())
		})
	}
}

// A file that was closed and can't be opened to be synced, perhaps as too many files are open, is synced later.
func TestSyncOfAClosedFileIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usually()
		o.MaxOpen = 1
		f := on(disktest.New(), o)
		f.Start()
		defer f.Close()
		f.append(t, theKey, "a\n")
		f.append(t, laterKey, "b\n") // closes the first
		f.disk.SetFault(failing(disktest.Open))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, afterPowerCut(f.disk, file))
		f.disk.SetFault(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "a\n", afterPowerCut(f.disk, file))
		f.append(t, theKey, "c\n")
		assert.Equal(t, "a\nc\n", f.disk.Content(file), "nothing was lost of it")
	})
}

// A file whose sync fails after it was closed is neither synced nor used again either, though it may be open again.
func TestSyncOfAClosedFileFails(t *testing.T) {
	for name, opened := range map[string]struct{ before, meanwhile bool }{
		"closed": {}, "open again before": {before: true}, "open again meanwhile": {meanwhile: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := usually()
				o.MaxOpen = 1
				f := on(disktest.New(), o)
				f.Start()
				f.append(t, theKey, "perhaps lost\n")
				f.append(t, laterKey, "b\n") // closes the first
				if opened.before {
					f.append(t, theKey, "perhaps lost too\n")
				}
				syncs := 0
				f.disk.SetFault(func(call disktest.Call, path string) (func(int) int, error) {
					if call == disktest.Sync && path == file {
						syncs++
						return nil, disktest.ErrFault
					}
					return nil, nil
				})
				f.disk.SetThen(func(call disktest.Call, path string) {
					if opened.meanwhile && call == disktest.Open && path == file {
						f.disk.SetThen(nil)
						f.append(t, theKey, "perhaps lost too\n")
					}
				})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				f.append(t, theKey, "goes on\n")
				f.Close()
				assert.Equal(t, 1, syncs)
				assert.Equal(t, "goes on\n", f.disk.Content(suffixed(t, f.disk, hour)))
			})
		})
	}
}

// Where more files could not be synced than are remembered, no name is used again that ever was.
func TestManySyncsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		defer f.Close()
		for i := range mostAvoided + 1 {
			f.avoid(fmt.Sprint(i), errSyncFailed)
		}
		f.append(t, theKey, "a\n")
		assert.Equal(t, []string{suffixed(t, f.disk, hour)}, f.disk.Files())
		assert.LessOrEqual(t, len(f.avoided), mostAvoided)
	})
}

// An open file stays in use where it can't be told whether it is still the one of its name: too many files may be open.
func TestLookingAtAFileFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		defer f.Close()
		f.append(t, theKey, "a\n")
		f.disk.SetFault(failing(disktest.Is, disktest.Open, disktest.Create, disktest.Mkdir))
		time.Sleep(time.Second)
		f.append(t, theKey, "b\n")
		f.disk.SetFault(failing(disktest.Is, disktest.Stat))
		assert.ErrorIs(t, f.Append(theKey, []byte("not now\n")), disktest.ErrFault)
		f.disk.SetFault(nil)
		assert.Equal(t, "a\nb\n", f.disk.Content(file))
		f.disk.Move(file, "away")
		f.append(t, theKey, "c\n")
		assert.Equal(t, "c\n", f.disk.Content(file), "it is asked again with the next write")
	})
}

// An empty file that somebody else made stays, though it could not be synced: he may have it open.
func TestEmptyFileOfOthersStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := on(disktest.New(), always())
		defer f.Close()
		f.disk.Append(file, "", time.Now().Add(-time.Hour))
		f.disk.SetFault(failing(disktest.Sync))
		assert.ErrorIs(t, f.Append(theKey, []byte("a\n")), disktest.ErrFault)
		assert.Contains(t, f.disk.Files(), file)
	})
}

// A file that is given up is removed before its lock is free: by then another writer may have it.
func TestRemovedWhileLocked(t *testing.T) {
	for name, test := range map[string]struct {
		options func(o *Options)
		fault   disktest.Call
	}{
		"it could not be synced": {func(o *Options) { o.Sync = SyncAlways }, disktest.Sync},
		"it could not be marked": {func(o *Options) { o.Recognizable = true }, disktest.Mark},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := disktest.New()
				o := usually()
				test.options(&o)
				f, other := on(d, o), on(d, usually())
				defer f.Close()
				defer other.Close()
				d.SetFault(failing(test.fault))
				d.SetThen(func(call disktest.Call, path string) {
					if call == disktest.Close && path == file {
						d.SetThen(nil)
						d.SetFault(nil)
						other.append(t, theKey, "of the other\n")
					}
				})
				_ = f.Append(theKey, []byte("a\n"))
				assert.Equal(t, "of the other\n", d.Content(file))
			})
		})
	}
}
