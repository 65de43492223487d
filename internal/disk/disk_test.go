package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const hour = "2026-11-04T05"

// inHour returns a directory with an hour in it.
func inHour(t *testing.T) (d FS, directory string) {
	directory = t.TempDir()
	d = At(directory)
	made, err := d.Mkdir(hour, 0o700)
	require.NoError(t, err)
	require.True(t, made)
	return d, directory
}

func create(t *testing.T, d FS, path, content string) File {
	t.Helper()
	file, err := d.Create(path, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	_, err = io.WriteString(file, content)
	require.NoError(t, err)
	return file
}

func open(t *testing.T, d FS, path string) File {
	t.Helper()
	file, err := d.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestFiles(t *testing.T) {
	d, directory := inHour(t)
	file := create(t, d, hour+"/a", "first\n")
	_, err := d.Create(hour+"/a", 0o600)
	assert.ErrorIs(t, err, fs.ErrExist)
	_, err = d.Open(hour + "/none")
	assert.ErrorIs(t, err, fs.ErrNotExist)

	again := open(t, d, hour+"/a")
	_, err = io.WriteString(again, "second\n")
	require.NoError(t, err)
	_, err = io.WriteString(file, "third\n")
	require.NoError(t, err, "each appends, whoever wrote before")
	content, err := os.ReadFile(filepath.Join(directory, hour, "a"))
	require.NoError(t, err)
	assert.Equal(t, "first\nsecond\nthird\n", string(content))

	require.NoError(t, file.Truncate(6))
	info, err := again.Stat()
	require.NoError(t, err)
	assert.Equal(t, int64(6), info.Size)
	require.NoError(t, file.Sync())
	require.NoError(t, d.SyncDirectory(hour))
	require.NoError(t, d.SyncDirectory("."))
}

// The directory is looked up for each call: what was moved away is not used any more.
func TestIs(t *testing.T) {
	d, directory := inHour(t)
	file := create(t, d, hour+"/a", "")
	is := func() bool {
		is, err := d.Is(hour+"/a", file)
		require.NoError(t, err)
		return is
	}
	assert.True(t, is())
	require.NoError(t, d.Rename(hour+"/a", hour+"/b"))
	assert.False(t, is())
	require.NoError(t, d.Rename(hour+"/b", hour+"/a"))
	assert.True(t, is())
	if runtime.GOOS == "windows" {
		return // a directory with open files in it can't be moved
	}
	require.NoError(t, os.Rename(directory, directory+"-away"))
	assert.False(t, is())
	_, err := d.Mkdir(hour, 0o700)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, d.MakeAll(0o700))
	assert.False(t, is())
	require.NoError(t, os.WriteFile(filepath.Join(directory, hour), nil, 0o600)) // in the hour's place
	assert.False(t, is())
	require.NoError(t, os.Remove(filepath.Join(directory, hour)))
	require.NoError(t, os.Symlink(directory+"-away/"+hour, filepath.Join(directory, hour)))
	assert.False(t, is(), "a link that leads out of the directory")
}

func TestLock(t *testing.T) {
	d, _ := inHour(t)
	first := create(t, d, hour+"/a", "a\n")
	if err := first.Lock(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no locks that we know")
	}
	second := open(t, d, hour+"/a")
	assert.ErrorIs(t, second.Lock(), ErrLocked, "also in one process")
	_, err := second.ReadAt(make([]byte, 1), 0)
	assert.NoError(t, err, "a reader is not in its way")
	require.NoError(t, first.Close())
	assert.NoError(t, second.Lock())
}

func TestMark(t *testing.T) {
	d, _ := inHour(t)
	file := create(t, d, hour+"/a", "")
	assert.False(t, file.Marked())
	if err := file.Mark(true); err != nil {
		t.Skipf("files can't be marked where the temporary directory is: %v", err)
	}
	require.NoError(t, d.Rename(hour+"/a", hour+"/b"))
	assert.True(t, open(t, d, hour+"/b").Marked(), "it goes with the file")
	require.NoError(t, file.Mark(false))
	assert.False(t, open(t, d, hour+"/b").Marked())
}

func TestWalk(t *testing.T) {
	d, _ := inHour(t)
	want := map[string]bool{}
	for i := range 3 * walked {
		name := strings.Repeat("x", 1+i%200) + string(rune('a'+i/200))
		want[name] = true
		require.NoError(t, create(t, d, hour+"/"+name, name).Close())
	}
	got := map[string]bool{}
	require.NoError(t, d.Walk(hour, func(info Info) error {
		got[info.Name] = true
		assert.Equal(t, int64(len(info.Name)), info.Size)
		assert.True(t, info.Mode.IsRegular())
		return nil
	}))
	assert.Equal(t, want, got)
	stop := errors.New("stop")
	assert.ErrorIs(t, d.Walk(hour, func(Info) error { return stop }), stop)
}

func TestRemoveAndTouch(t *testing.T) {
	d, _ := inHour(t)
	require.NoError(t, create(t, d, hour+"/a", "").Close())
	assert.Error(t, d.Remove(hour), "it is not empty")
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, d.Touch(hour+"/a", old))
	info, err := open(t, d, hour+"/a").Stat()
	require.NoError(t, err)
	assert.True(t, old.Equal(info.Modified))
}

// No path leads out of the directory.
func TestNothingOutside(t *testing.T) {
	parent := t.TempDir()
	d := At(filepath.Join(parent, "directory"))
	require.NoError(t, d.MakeAll(0o700))
	require.NoError(t, os.WriteFile(filepath.Join(parent, "outside"), nil, 0o600))
	for _, path := range []string{"../outside", filepath.Join(parent, "outside")} {
		_, err := d.Open(path)
		assert.Error(t, err)
		_, err = d.Create(path+"-new", 0o600)
		assert.Error(t, err)
		assert.Error(t, d.Remove(path))
	}
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Len(t, entries, 2)
}

func TestFree(t *testing.T) {
	free, err := At(t.TempDir()).Free()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system does not say what is free")
	}
	require.NoError(t, err)
	assert.Positive(t, free)
	_, err = At(filepath.Join(t.TempDir(), "none")).Free()
	assert.Error(t, err)
}

func TestProbe(t *testing.T) {
	d, directory := inHour(t)
	require.NoError(t, Probe(d))
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left")
	assert.Error(t, Probe(At(filepath.Join(directory, "none"))))
}
