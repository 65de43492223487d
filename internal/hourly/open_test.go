package hourly

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
	"github.com/otel-rawoutput/rawoutput/internal/tail"
)

// What a process left that was killed within a write is repaired by the next one with its pid, as in a container.
func TestRepairOfOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		killed := on(d, usually())
		killed.append(t, theKey, "whole\n")
		killed.process.Kill()
		d.Append(file, "whole too\ntor", time.Now())

		time.Sleep(time.Millisecond)
		next := on(d, usually())
		defer next.Close()
		next.append(t, theKey, "a\n")
		assert.Equal(t, "whole\nwhole too\na\n", d.Content(file))
		assert.Equal(t, 1, next.spy.torn)
		assert.Equal(t, int64(3), next.spy.tornBytes)
		assert.Equal(t, []string{file}, d.Files())
	})
}

// A file that another writer has, or may have, is left as it is.
func TestTakenNames(t *testing.T) {
	for name, test := range map[string]struct {
		put     func(t *testing.T, d *disktest.Disk)
		content string // of the file with the usual name
	}{
		"locked by another process": {func(t *testing.T, d *disktest.Disk) {
			other := on(d, usually())
			other.append(t, theKey, "theirs\n")
		}, "theirs\n"},
		"the original hook writes it": {func(_ *testing.T, d *disktest.Disk) {
			d.Append(file, "theirs\nhalf a li", time.Now().Add(-59*time.Second))
		}, "theirs\nhalf a li"},
		"the original hook wrote a whole line": {func(_ *testing.T, d *disktest.Disk) { d.Append(file, "theirs\n", time.Now()) }, "theirs\n"},
		"the hook's clock is ahead":            {func(_ *testing.T, d *disktest.Disk) { d.Append(file, "x", time.Now().Add(time.Hour)) }, "x"},
		"locks are not kept": {func(_ *testing.T, d *disktest.Disk) {
			d.NoLocks = true
			d.Append(file, "theirs\nhalf a li", time.Now().Add(-time.Hour))
		}, "theirs\nhalf a li"},
		"it belongs to another user": {func(_ *testing.T, d *disktest.Disk) {
			d.Append(file, "theirs\n", time.Now().Add(-time.Hour))
			d.GiveAway(file)
		}, "theirs\n"},
		"a process was killed before it removed what it compressed": {func(t *testing.T, d *disktest.Disk) {
			killed := on(d, usually())
			killed.append(t, theKey, "compressed\n")
			killed.Close()
			d.Append(file+".zst", "the same, compressed", time.Now())
		}, "compressed\n"},
		"locking fails": {func(_ *testing.T, d *disktest.Disk) {
			d.Append(file, "theirs\nhalf a li", time.Now().Add(-time.Hour))
			d.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
				if call == disktest.Lock {
					return nil, disktest.ErrFault
				}
				return nil, nil
			})
		}, "theirs\nhalf a li"},
		"it can't be repaired": {func(_ *testing.T, d *disktest.Disk) {
			d.Append(file, "theirs\nhalf a li", time.Now().Add(-time.Hour))
			d.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
				if call == disktest.Truncate {
					return nil, disktest.ErrFault
				}
				return nil, nil
			})
		}, "theirs\nhalf a li"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := disktest.New()
				test.put(t, d)
				f := on(d, usually())
				defer f.Close()
				f.append(t, theKey, "a\n")
				f.append(t, theKey, "b\n")
				assert.Equal(t, test.content, d.Content(file))
				assert.Equal(t, "a\nb\n", d.Content(suffixed(t, d, hour)))
				assert.Zero(t, f.spy.torn)
				require.Len(t, f.spy.took, 1, "it says why")
				assert.ErrorIs(t, f.spy.took[0], errTaken)
			})
		})
	}
}

// A file of nobody: the process that wrote it is long gone, and it had our pid.
func TestNobodysFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		d.Append(file, "theirs\nhalf a li", time.Now().Add(-time.Minute))
		f := on(d, usually())
		defer f.Close()
		f.append(t, theKey, "a\n")
		assert.Equal(t, "theirs\na\n", d.Content(file))
		assert.Equal(t, 1, f.spy.torn)
		assert.False(t, d.IsMarked(file), "it is not ours alone")
	})
}

// Where locks are not kept each start takes a name of its own, and keeps it.
func TestNoLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		d.NoLocks = true
		for range 2 {
			o := usually()
			o.MaxOpen = 1
			f := on(d, o)
			f.append(t, theKey, "a\n")
			f.append(t, laterKey, "b\n")
			f.append(t, theKey, "c\n")
			f.Close()
		}
		assert.Len(t, d.Files(), 4)
		for _, path := range d.Files() {
			assert.Contains(t, []string{"a\nc\n", "b\n"}, d.Content(path))
		}
	})
}

// Our own name is not used again where somebody found it out and left half a line.
func TestOurOwnNameIsTorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		d.NoLocks = true
		o := usually()
		o.MaxOpen = 1
		f := on(d, o)
		defer f.Close()
		f.append(t, theKey, "a\n")
		f.append(t, laterKey, "b\n") // the first one is closed
		first := suffixed(t, d, hour)
		d.Append(first, "half a li", time.Now())
		f.append(t, theKey, "c\n")
		assert.Equal(t, "a\nhalf a li", d.Content(first))
		assert.Len(t, d.Files(), 3)
	})
}

// Somebody writes to a file that we have open: it is theirs from then on.
func TestSomebodyElseWrites(t *testing.T) {
	for name, noLocks := range map[string]bool{"the usual name": false, "our own name": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := disktest.New()
				d.NoLocks = noLocks
				f := on(d, usually())
				defer f.Close()
				f.append(t, theKey, "a\n")
				used := d.Files()[0]
				require.True(t, d.IsMarked(used))
				d.Append(used, "half a li", time.Now())
				f.append(t, theKey, "b\n")
				d.Append(used, "ne\n", time.Now())
				f.append(t, theKey, "c\n")
				assert.Equal(t, "a\nhalf a line\n", d.Content(used))
				assert.False(t, d.IsMarked(used))
				for _, path := range d.Files() {
					if path != used {
						assert.Equal(t, "b\nc\n", d.Content(path))
					}
				}
				assert.Len(t, d.Files(), 2)
			})
		})
	}
}

// Somebody writes while a write of ours fails: what they wrote is not cut off.
func TestSomebodyElseWritesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		f := on(d, usually())
		defer f.Close()
		f.append(t, theKey, "a\n")
		d.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
			if call == disktest.Write {
				return func(int) int { return 2 }, disktest.ErrFault
			}
			return nil, nil
		})
		d.SetThen(func(call disktest.Call, _ string) {
			if call == disktest.Write {
				d.SetThen(nil)
				d.SetFault(nil)
				d.Append(file, "theirs\n", time.Now())
			}
		})
		err := f.Append(theKey, []byte("ours\n"))
		assert.ErrorIs(t, err, ErrUncertain)
		assert.Equal(t, "a\noutheirs\n", d.Content(file))
	})
}

// The original hook writes to a file that we made and closed, with its own process id in the name, or with ours, as it may in
// another container. It is within a line when we want the file again.
func TestHookInAFileOfOurs(t *testing.T) {
	for name, id := range map[string]int{"of its pid": 1, "of our pid": pid} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := usually()
				o.MaxOpen = 1
				f := on(disktest.New(), o)
				f.pid = id
				f.append(t, theKey, "ours\n")
				f.append(t, laterKey, "ours too\n") // the first one is closed
				f.disk.Append(file, "half a li", time.Now())
				f.append(t, theKey, "ours again\n")
				f.disk.Append(file, "ne\n", time.Now())
				f.Close()
				assert.Equal(t, "ours\nhalf a line\n", f.disk.Content(file))
				assert.Equal(t, "ours again\n", f.disk.Content(suffixed(t, f.disk, hour)))
				assert.Zero(t, f.spy.torn)
			})
		})
	}
}

// A file of another process id is repaired when nobody can be within that line any more, whoever made it.
func TestRepairOfAnothersName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		killed := on(d, usually())
		killed.append(t, theKey, "whole\n")
		killed.process.Kill()
		d.Append(file, "tor", time.Now())
		time.Sleep(tail.Quiet)
		next := on(d, usually())
		next.pid = 1
		defer next.Close()
		next.append(t, theKey, "a\n")
		assert.Equal(t, "whole\na\n", d.Content(file))
		assert.Equal(t, 1, next.spy.torn)
	})
}

// Somebody writes to a file of ours after our last line: it has no mark any more when it is closed.
func TestSomebodyElseWritesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		f.append(t, theKey, "ours\n")
		f.disk.Append(file, "theirs\n", time.Now())
		f.Close()
		assert.False(t, f.disk.IsMarked(file), "else it would be removed as if all of it were ours")
	})
}

// Where the mark can't be taken off, the file is not used any more all the same, and it says so.
func TestMarkStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		defer f.Close()
		f.append(t, theKey, "ours\n")
		f.disk.Append(file, "theirs\n", time.Now().Add(-time.Hour))
		f.disk.SetFault(failing(disktest.Mark))
		f.append(t, theKey, "ours too\n")
		assert.Equal(t, "ours\ntheirs\n", f.disk.Content(file))
		require.Len(t, f.spy.took, 1)
		assert.ErrorIs(t, f.spy.took[0], errSomebodyElse)
		assert.ErrorIs(t, f.spy.took[0], disktest.ErrFault)
	})
}

// Our own name is left too where it has a compressed copy. An empty file has nothing that could be compressed twice.
func TestCompressedCopyOfOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		d.NoLocks = true
		o := usually()
		o.MaxOpen = 1
		f := on(d, o)
		defer f.Close()
		f.append(t, theKey, "compressed\n")
		first := suffixed(t, d, hour)
		f.append(t, laterKey, "b\n") // the first one is closed
		d.Append(first+".zst", "the same, compressed", time.Now())
		f.append(t, theKey, "c\n")
		assert.Equal(t, "compressed\n", d.Content(first))
		assert.Len(t, d.Files(), 4)

		d = disktest.New()
		d.Append(file, "", time.Now().Add(-time.Hour))
		d.Append(file+".zst", "earlier lines, compressed", time.Now())
		g := on(d, usually())
		defer g.Close()
		g.append(t, theKey, "a\n")
		assert.Equal(t, "a\n", d.Content(file))
	})
}

// Files that must be told from those of others later get a suffix where they can't be marked.
func TestRecognizable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		d.NoMarks = true
		o := usually()
		o.Recognizable = true
		f := on(d, o)
		defer f.Close()
		f.append(t, theKey, "a\n")
		assert.Equal(t, []string{suffixed(t, d, hour)}, d.Files(), "nothing else is left")
		d.SetFault(func(call disktest.Call, path string) (func(int) int, error) {
			assert.False(t, call == disktest.Create && path == later+"/"+name, "it is known by now")
			return nil, nil
		})
		f.append(t, laterKey, "a\n")

		plain := on(disktest.New(), usually())
		plain.disk.NoMarks = true
		defer plain.Close()
		plain.append(t, theKey, "a\n")
		assert.Equal(t, []string{file}, plain.disk.Files())
	})
}

// A file that is replaced between being opened and being locked is not written to: nobody would find it.
func TestReplacedBeforeItIsLocked(t *testing.T) {
	for name, test := range map[string]struct {
		there bool // the file, before
		after disktest.Call
	}{
		"one that was there": {true, disktest.Open},
		"one that we made":   {false, disktest.Create},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := disktest.New()
				if test.there {
					before := on(d, usually())
					before.append(t, theKey, "before\n")
					before.Close()
				}
				replaced := false
				d.SetThen(func(call disktest.Call, path string) {
					if call == test.after && path == file {
						replaced = true
						d.SetThen(nil)
						d.Move(file, "away/x")
					}
				})
				f := on(d, usually())
				defer f.Close()
				f.append(t, theKey, "a\n")
				assert.True(t, replaced)
				assert.Equal(t, "a\n", d.Content(file))
			})
		})
	}
}

// An hour that is removed because it became empty, just before a file is made in it, is made again.
func TestHourRemovedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		d.SetThen(func(call disktest.Call, _ string) {
			if call == disktest.Mkdir {
				d.SetThen(nil)
				d.Move(hour, "")
			}
		})
		f := on(d, usually())
		defer f.Close()
		f.append(t, theKey, "a\n")
		assert.Equal(t, "a\n", d.Content(file))
	})
}
