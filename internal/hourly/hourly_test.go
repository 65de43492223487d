package hourly

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	hour  = "2026-11-04T05"
	later = "2026-11-04T06"
	pid   = 4711
	name  = "raw-4711.jsonl"
)

var usual = Permissions{File: 0o640, Directory: 0o750}

// writerIn returns a writer to the file system of the machine.
func writerIn(directory string) *Writer { return NewWriter(directory, pid, usual, System()) }

func contentOf(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(content)
}

func TestAppend(t *testing.T) {
	directory := t.TempDir()
	w := writerIn(directory)
	require.NoError(t, w.Append(hour, []byte("a\nb\n")))
	require.NoError(t, w.Append(later, []byte("c\n")))
	require.NoError(t, w.Append(hour, []byte("d\n")), "an hour is not over when a later one began")
	assert.Equal(t, "a\nb\nd\n", contentOf(t, directory, hour, name))
	assert.Equal(t, "c\n", contentOf(t, directory, later, name))
	assert.Equal(t, []string{hour + "/" + name, later + "/" + name}, filesBelow(t, directory), "and nothing else")
}

func filesBelow(t *testing.T, directory string) (files []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(directory), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func TestAppendToWhatIsThere(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(directory, hour), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(directory, hour, name), []byte("of a process before\n"), 0o600))
	require.NoError(t, writerIn(directory).Append(hour, []byte("a\n")))
	assert.Equal(t, "of a process before\na\n", contentOf(t, directory, hour, name))
}

// A process that was killed within a write leaves a line without an end, and the next one may have the same pid, as in a
// container. The torn line is lost; the next one must not be lost with it.
func TestAppendAfterATornLine(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(directory, hour), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(directory, hour, name), []byte("whole\ntor"), 0o600))
	require.NoError(t, writerIn(directory).Append(hour, []byte("a\nb\n")))
	lines := strings.Split(contentOf(t, directory, hour, name), "\n")
	assert.Subset(t, lines, []string{"whole", "a", "b"}, "each of them a line")
}

func TestAppendMakesTheDirectory(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "a", "b")
	w := writerIn(directory)
	require.NoError(t, w.Append(hour, []byte("a\n")))
	assert.Equal(t, "a\n", contentOf(t, directory, hour, name))
}

// Somebody may take away what was written, or all of it, at any time.
func TestAppendAfterARemoval(t *testing.T) {
	for _, removed := range []string{"", hour, filepath.Join(hour, name)} {
		t.Run("of "+removed, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "directory")
			w := writerIn(directory)
			require.NoError(t, w.Append(hour, []byte("a\n")))
			require.NoError(t, os.RemoveAll(filepath.Join(directory, removed)))
			require.NoError(t, w.Append(hour, []byte("b\n")))
			assert.Equal(t, "b\n", contentOf(t, directory, hour, name))
		})
	}
}

// Something may be in the way; what comes once it is gone must not be lost.
func TestSomethingInTheWay(t *testing.T) {
	for _, test := range []struct {
		name    string
		path    string // of what is in the way, below the parent of the directory
		put     func(path string) error
		message string
	}{
		{"a file in the directory's place", "directory", putFile, ""},
		{"a file in the hour's place", filepath.Join("directory", hour), putFile, ""},
		{"a directory in the file's place", filepath.Join("directory", hour, name), putDirectory, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := t.TempDir()
			path := filepath.Join(parent, test.path)
			require.NoError(t, test.put(path))
			w := writerIn(filepath.Join(parent, "directory"))
			for range 2 {
				assert.Error(t, w.Append(hour, []byte("lost\n")))
			}
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, w.Append(hour, []byte("a\n")))
			assert.Equal(t, "a\n", contentOf(t, parent, "directory", hour, name))
		})
	}
}

func putFile(path string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("in the way"), 0o600))
}

func putDirectory(path string) error { return os.MkdirAll(path, 0o700) }

func TestPrepare(t *testing.T) {
	t.Run("makes the directory", func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "a", "b")
		require.NoError(t, writerIn(directory).Prepare())
		assert.DirExists(t, directory)
		assert.Empty(t, filesBelow(t, directory), "the probe is gone")
	})
	t.Run("of a directory that is there", func(t *testing.T) {
		directory := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(directory, "other"), nil, 0o600))
		for range 2 {
			require.NoError(t, writerIn(directory).Prepare())
		}
		assert.Equal(t, []string{"other"}, filesBelow(t, directory))
	})
	t.Run("of a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, putFile(file))
		assert.ErrorContains(t, writerIn(file).Prepare(), file, "the error names it")
		assert.Equal(t, "in the way", contentOf(t, file))
	})
	t.Run("below a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, putFile(file))
		assert.ErrorContains(t, writerIn(filepath.Join(file, "directory")).Prepare(), file)
	})
}

// Writers of two pipelines have the same process, and with it the same file.
func TestWritersOfOneDirectory(t *testing.T) {
	const writers, appends, linesEach = 4, 50, 20
	directory := t.TempDir()
	var all sync.WaitGroup
	for i := range writers {
		w := writerIn(directory)
		all.Go(func() {
			for n := range appends {
				assert.NoError(t, w.Append(hour, numbered(i, n, linesEach)))
			}
		})
	}
	all.Wait()
	content := contentOf(t, directory, hour, name)
	assert.Equal(t, writers*appends*linesEach, strings.Count(content, "\n"))
	for i := range writers {
		from := 0
		for n := range appends { // what was appended in one piece is there in one piece, in order
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

func TestProcessesHaveTheirOwnFiles(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, NewWriter(directory, 1, usual, System()).Append(hour, []byte("a\n")))
	require.NoError(t, NewWriter(directory, 2, usual, System()).Append(hour, []byte("b\n")))
	assert.Equal(t, "a\n", contentOf(t, directory, hour, "raw-1.jsonl"))
	assert.Equal(t, "b\n", contentOf(t, directory, hour, "raw-2.jsonl"))
}

// A directory has one lock however it is spelled: a cut by one writer must not take what another wrote meanwhile.
func TestLockOf(t *testing.T) {
	t.Chdir(t.TempDir())
	absolute, err := filepath.Abs("directory")
	require.NoError(t, err)
	for _, same := range []string{"directory", "./directory", "directory/", "x/../directory", absolute} {
		assert.Same(t, lockOf("directory"), lockOf(same), same)
	}
	assert.NotSame(t, lockOf("directory"), lockOf("other"))
}
