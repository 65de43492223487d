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

// A batch of many hours does not pile up what is to be synced.
func TestUnsyncedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		defer f.Close()
		f.append(t, theKey, "a\n")
		for i := len(f.unsynced); i < mostUnsynced; i++ {
			f.noteUnsynced(fmt.Sprint("removed meanwhile ", i), aFile)
			require.Less(t, len(f.unsynced), mostUnsynced)
		}
		assert.Empty(t, f.unsynced)
		f.Close()
		assert.Equal(t, "a\n", afterPowerCut(f.disk, file), "the directories were synced meanwhile")
	})
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
