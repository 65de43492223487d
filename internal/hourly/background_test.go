package hourly

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

// afterPowerCut is what a power cut surely leaves of a file.
func afterPowerCut(d *disktest.Disk, path string) string {
	return d.CutPower(func(int) int { return 0 }).Content(path)
}

// What was acknowledged survives a power cut: at once with SyncAlways, after the interval with SyncInterval. The directories
// that were made survive too.
func TestSync(t *testing.T) {
	for policy, test := range map[string]struct {
		policy        SyncPolicy
		atOnce, later bool
	}{
		"always":   {SyncAlways, true, true},
		"interval": {SyncInterval, false, true},
		"never":    {SyncNever, false, false},
	} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := usually()
				o.Sync, o.MaxOpen = test.policy, 1
				f := on(disktest.New(), o)
				f.Start()
				defer f.Close()
				time.Sleep(time.Second / 2)
				synctest.Wait()
				f.append(t, theKey, "a\n")
				f.append(t, laterKey, "b\n") // now the first file is closed
				for _, path := range []string{file, later + "/" + name} {
					assert.Equal(t, test.atOnce, afterPowerCut(f.disk, path) != "", path)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				for _, path := range []string{file, later + "/" + name} {
					assert.Equal(t, test.later, afterPowerCut(f.disk, path) != "", path)
				}
			})
		})
	}
}

// With SyncAlways what is acknowledged survives a power cut also where somebody else made the file and its directory, and was
// killed before he made those safe.
func TestSyncOfWhatOthersMade(t *testing.T) {
	for name, before := range map[string]func(d *disktest.Disk){
		"a process that syncs never": func(d *disktest.Disk) {
			o := usually()
			o.Sync = SyncNever
			killed := on(d, o)
			require.NoError(t, killed.Append(theKey, []byte("before\n")))
			killed.process.Kill()
		},
		"a process that is killed before its first sync": func(d *disktest.Disk) {
			o := usually()
			o.Sync = SyncAlways
			killed := on(d, o)
			d.SetFault(failing(disktest.Sync, disktest.SyncDirectory, disktest.Truncate))
			require.Error(t, killed.Append(theKey, []byte("before\n")))
			killed.process.Kill()
			d.SetFault(nil)
		},
		"the original hook": func(d *disktest.Disk) { d.Append(file, "before\n", time.Now().Add(-time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := disktest.New()
				before(d)
				o := usually()
				o.Sync = SyncAlways
				f := on(d, o)
				defer f.Close()
				require.NoError(t, f.Prepare())
				f.append(t, theKey, "acknowledged\n")
				assert.Equal(t, "before\nacknowledged\n", afterPowerCut(d, file))
			})
		})
	}
}

// What a killed process left unsynced is synced with the interval, though nothing is appended.
func TestSyncOfWhatIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		killed := on(d, usually())
		killed.append(t, theKey, "before\n")
		killed.process.Kill()
		f := on(d, usually())
		f.Start()
		defer f.Close()
		d.SetFault(failing(disktest.Write))
		require.Error(t, f.Append(theKey, []byte("a\n")))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "before\n", afterPowerCut(d, file))
	})
}

// A disk at rest is not synced.
func TestSyncOnlyWhatIsDirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.Start()
		defer f.Close()
		f.append(t, theKey, "a\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, f.spy.syncs)
		f.append(t, theKey, "b\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, f.spy.syncs)
	})
}

// Lines that are appended while the file is synced are synced by the next interval.
func TestAppendWhileSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.Start()
		defer f.Close()
		f.append(t, theKey, "a\n")
		f.disk.SetThen(func(call disktest.Call, _ string) {
			if call == disktest.Sync {
				f.disk.SetThen(nil)
				f.append(t, theKey, "b\n")
			}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "a\n", afterPowerCut(f.disk, file))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "a\nb\n", afterPowerCut(f.disk, file))
	})
}

// A batch of many hours does not pile up what is to be synced: who opens one more file waits for the background, and syncs
// nothing himself; who writes to an open file does not wait.
func TestUnsyncedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.append(t, theKey, "a\n")
		f.fillUnsynced(mostUnsynced, aFile)
		appended := false
		go func() { appended = f.Append(laterKey, []byte("b\n")) == nil }()
		f.append(t, theKey, "c\n")
		synctest.Wait()
		assert.False(t, appended)
		assert.LessOrEqual(t, len(f.unsynced), mostUnsynced)
		assert.Zero(t, f.spy.syncs)
		began := time.Now()
		f.Start()
		synctest.Wait()
		assert.True(t, appended)
		assert.Zero(t, time.Since(began), "it was asked for, and did not wait for the interval")
		f.Close()
		assert.Equal(t, "a\nc\n", afterPowerCut(f.disk, file))
	})
}

// Directories that can't be synced do not keep anybody from opening files for ever.
func TestUnsyncedDirectoriesLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.fillUnsynced(mostUnsynced, aDirectory)
		f.disk.SetFault(failing(disktest.SyncDirectory))
		f.Start()
		defer f.Close()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f.mu.Lock()
		assert.LessOrEqual(t, len(f.unsynced), mostUnsynced/2)
		f.mu.Unlock()
		began := time.Now()
		f.append(t, theKey, "a\n")
		f.append(t, laterKey, "b\n")
		assert.Zero(t, time.Since(began))
	})
}

// fillUnsynced notes paths of what was removed meanwhile, until there are so many.
func (f *fixture) fillUnsynced(paths int, k kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := 0; len(f.unsynced) < paths; i++ {
		f.noteUnsynced(fmt.Sprint("removed meanwhile ", i), k)
	}
}

// Close makes safe what is not.
func TestCloseSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.append(t, theKey, "a\n")
		assert.Empty(t, afterPowerCut(f.disk, file))
		f.Close()
		assert.Equal(t, "a\n", afterPowerCut(f.disk, file))
	})
}

// What comes after Close fails and opens nothing.
func TestAppendAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.append(t, theKey, "a\n")
		f.Close()
		for _, key := range []Key{theKey, laterKey} {
			assert.ErrorIs(t, f.Append(key, []byte("late\n")), ErrClosed)
		}
		assert.Equal(t, []string{file}, f.disk.Files())
		assert.Equal(t, "a\n", f.disk.Content(file))
		assert.Zero(t, f.process.OpenFiles())
	})
}

// A file is closed when its hour is over and nobody writes to it, and one of an hour that never ends when nobody did for long.
func TestIdleFilesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock begins at 2000-01-01T00
		f := inMemory()
		f.Start()
		defer f.Close()
		current, over, future := Key{"2000-01-01T00", pid}, Key{"1999-12-31T23", pid}, Key{"2554-07-21T23", pid}
		for _, k := range []Key{current, over, future} {
			f.append(t, k, "a\n")
		}
		time.Sleep(idle + lookInterval)
		synctest.Wait()
		assert.Equal(t, 2, f.process.OpenFiles(), "all but the one whose hour is over")
		f.append(t, over, "late\n")
		assert.Equal(t, "a\nlate\n", f.disk.Content("1999-12-31T23/"+name))
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Zero(t, f.process.OpenFiles())
		assert.Zero(t, f.spy.open)
	})
}

// A file that is written to is not closed, though its hour is over.
func TestBusyFilesStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.Start()
		defer f.Close()
		opens := 0
		f.disk.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
			if call == disktest.Create || call == disktest.Open {
				opens++
			}
			return nil, nil
		})
		for range 1000 {
			f.append(t, Key{"1999-12-31T23", pid}, "a\n")
			time.Sleep(idle / 2)
			synctest.Wait()
		}
		assert.Equal(t, 2, opens, "looked for, and made, once")
	})
}
