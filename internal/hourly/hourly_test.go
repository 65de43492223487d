package hourly

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

func TestAppend(t *testing.T) {
	directory := t.TempDir()
	w := writerIn(t, directory)
	require.NoError(t, w.Append(theKey, []byte("a\nb\n")))
	require.NoError(t, w.Append(laterKey, []byte("c\n")))
	require.NoError(t, w.Append(theKey, []byte("d\n")), "an hour is not over when a later one began")
	require.NoError(t, w.Append(Key{hour, 1}, []byte("of another process\n")))
	assert.Equal(t, "a\nb\nd\n", contentOf(t, directory, hour, name))
	assert.Equal(t, "c\n", contentOf(t, directory, later, name))
	assert.Equal(t, "of another process\n", contentOf(t, directory, hour, "raw-1.jsonl"))
	assert.Len(t, filesBelow(t, directory), 3, "and nothing else")
}

// What was written is there when Append returns, for whoever looks: no buffer outlives the call.
func TestNoBuffer(t *testing.T) {
	directory := t.TempDir()
	w := writerIn(t, directory)
	want := ""
	for i := range 100 {
		want += fmt.Sprintln(i)
		require.NoError(t, w.Append(theKey, []byte(fmt.Sprintln(i))))
		require.Equal(t, want, contentOf(t, directory, hour, name))
	}
}

func TestAppendMakesTheDirectory(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, writerIn(t, directory).Append(theKey, []byte("a\n")))
	assert.Equal(t, "a\n", contentOf(t, directory, hour, name))
}

// Somebody may take away what was written, or all of it, at any time. That a file was removed is noticed at once, that it was
// moved within a second.
func TestAppendAfterARemoval(t *testing.T) {
	for _, what := range []string{".", hour, file} {
		for _, to := range []string{"", "away"} {
			t.Run(fmt.Sprintf("of %s to %q", what, to), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := inMemory()
					f.append(t, theKey, "a\n")
					if what == "." {
						f.disk.Move(hour, "")
					}
					f.disk.Move(what, to)
					f.append(t, theKey, "moved with it, or kept\n")
					time.Sleep(time.Second)
					synctest.Wait()
					f.append(t, theKey, "b\n")
					f.append(t, theKey, "c\n")
					kept := "moved with it, or kept\n"
					if what != "." && to != "" {
						kept = ""
					}
					assert.Equal(t, kept+"b\nc\n", f.disk.Content(file))
					f.Close()
					assert.Zero(t, f.process.OpenFiles())
				})
			})
		}
	}
}

// Something may be in the way; what comes once it is gone must not be lost.
func TestSomethingInTheWay(t *testing.T) {
	for _, test := range []struct {
		name string
		path string // of what is in the way, below the parent of the directory
	}{
		{"a file in the directory's place", "directory"},
		{"a file in the hour's place", filepath.Join("directory", hour)},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := t.TempDir()
			path := filepath.Join(parent, test.path)
			require.NoError(t, putFile(path))
			w := writerIn(t, filepath.Join(parent, "directory"))
			for range 2 {
				assert.Error(t, w.Append(theKey, []byte("lost\n")))
			}
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, w.Append(theKey, []byte("a\n")))
			assert.Equal(t, "a\n", contentOf(t, parent, "directory", hour, name))
		})
	}
}

func putFile(path string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("in the way"), 0o600))
}

func TestPrepare(t *testing.T) {
	t.Run("makes the directory", func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "a", "b")
		require.NoError(t, writerIn(t, directory).Prepare())
		assert.DirExists(t, directory)
		assert.Empty(t, filesBelow(t, directory), "the probe is gone")
	})
	t.Run("of a directory that is there", func(t *testing.T) {
		directory := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(directory, "other"), nil, 0o600))
		for range 2 {
			require.NoError(t, writerIn(t, directory).Prepare())
		}
		assert.Equal(t, []string{"other"}, filesBelow(t, directory))
	})
	t.Run("of a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, putFile(file))
		assert.ErrorContains(t, writerIn(t, file).Prepare(), file, "the error names it")
		assert.Equal(t, "in the way", contentOf(t, file))
	})
	t.Run("below a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, putFile(file))
		assert.ErrorContains(t, writerIn(t, filepath.Join(file, "directory")).Prepare(), file)
	})
}

// Pipelines that write at once: what was appended in one piece is there in one piece, in order.
func TestAppendAtOnce(t *testing.T) {
	const writers, appends, linesEach = 4, 50, 20
	directory := t.TempDir()
	w := writerIn(t, directory)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range appends {
				assert.NoError(t, w.Append(theKey, numbered(i, n, linesEach)))
			}
		})
	}
	all.Wait()
	content := contentOf(t, directory, hour, name)
	assert.Equal(t, writers*appends*linesEach, strings.Count(content, "\n"))
	for i := range writers {
		from := 0
		for n := range appends {
			at := strings.Index(content[from:], string(numbered(i, n, linesEach)))
			require.GreaterOrEqual(t, at, 0, "writer %d, piece %d", i, n)
			from += at
		}
	}
}

// numbered are lines that no other piece has.
func numbered(writer, piece, lines int) []byte {
	var b strings.Builder
	for line := range lines {
		fmt.Fprintf(&b, "writer %d, piece %d, line %d, %s\n", writer, piece, line, strings.Repeat("x", line*10))
	}
	return []byte(b.String())
}

// Any number of hours, and few open files.
func TestManyHours(t *testing.T) {
	needsMarks(t)
	directory := t.TempDir()
	w := writerIn(t, directory)
	w.options.MaxOpen = 3
	s := w.observer.(*spy)
	begin := time.Date(2026, 11, 4, 5, 0, 0, 0, time.UTC)
	const hours = 500
	for range 2 {
		for i := range hours {
			require.NoError(t, w.Append(Key{begin.Add(time.Duration(i) * time.Hour).Format("2006-01-02T15"), pid}, []byte("a\n")))
		}
	}
	assert.Equal(t, 3, s.mostOpen)
	assert.Equal(t, 3, s.open)
	w.Close()
	assert.Zero(t, s.open)
	assert.Len(t, filesBelow(t, directory), hours)
	assert.Equal(t, "a\na\n", contentOf(t, directory, hour, name))
}

// The file that was not used for the longest time is closed first.
func TestWhichIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usually()
		o.MaxOpen = 2
		f := on(disktest.New(), o)
		defer f.Close()
		for _, k := range []Key{theKey, laterKey, theKey, {"2026-11-04T07", pid}} {
			f.append(t, k, "a\n")
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		assert.Contains(t, f.open, theKey)
		assert.NotContains(t, f.open, laterKey)
	})
}

// However many bytes are to stay free, it is that many.
func TestMinFreeOfAnySize(t *testing.T) {
	o := usually()
	o.MinFree = math.MaxInt64
	f := on(disktest.New(), o)
	defer f.Close()
	assert.ErrorIs(t, f.Append(theKey, []byte("a\n")), ErrReserved)
}

// Bytes that are to stay free stay free, whatever a batch has, and it goes on when there are more.
func TestMinFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usually()
		o.MinFree = 100
		f := on(disktest.New(), o)
		defer f.Close()
		f.disk.Capacity = 120
		f.append(t, theKey, "0123456789\n")
		assert.ErrorIs(t, f.Append(theKey, []byte("0123456789\n")), ErrReserved)
		f.append(t, theKey, "fits\n")
		assert.Equal(t, "0123456789\nfits\n", f.disk.Content(file))
		f.disk.Append("2026-11-04T01/other", strings.Repeat("x", 50), time.Now()) // others fill the disk too
		time.Sleep(time.Second)
		synctest.Wait()
		assert.ErrorIs(t, f.Append(theKey, []byte("x\n")), ErrReserved, "noticed within a second")
		f.disk.Move("2026-11-04T01/other", "")
		f.append(t, theKey, "x\n")
		assert.Equal(t, int64(104), f.spy.free)
	})
}
