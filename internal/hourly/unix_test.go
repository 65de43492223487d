//go:build linux || darwin

package hourly

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
)

// withUmask runs f under a umask. It is the process's: no test of the package runs beside another.
func withUmask(umask int, f func()) {
	before := syscall.Umask(umask)
	defer syscall.Umask(before)
	f()
}

func permissionsOf(t *testing.T, path ...string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(filepath.Join(path...))
	require.NoError(t, err)
	return info.Mode().Perm()
}

// What is made has the permissions that it should have, whatever the umask takes away.
func TestPermissions(t *testing.T) {
	eachPermissions(t, "directory", func(t *testing.T, parent string, want Permissions) {
		assert.Equal(t, want.File, permissionsOf(t, parent, "directory", hour, name), "of the file")
		assert.Equal(t, want.Directory, permissionsOf(t, parent, "directory", hour), "of the hour")
		assert.Equal(t, want.Directory, permissionsOf(t, parent, "directory"), "of the directory")
	})
}

func TestPermissionsOfTheDirectoriesAbove(t *testing.T) {
	eachPermissions(t, filepath.Join("a", "b", "directory"), func(t *testing.T, parent string, want Permissions) {
		assert.Equal(t, want.Directory, permissionsOf(t, parent, "a"))
		assert.Equal(t, want.Directory, permissionsOf(t, parent, "a", "b"))
	})
}

// eachPermissions makes a file in the directory with different permissions under different umasks.
func eachPermissions(t *testing.T, directory string, check func(t *testing.T, parent string, want Permissions)) {
	for _, permissions := range []Permissions{{0o640, 0o750}, {0o666, 0o777}, {0o600, 0o700}} {
		for _, umask := range []int{0, 0o022, 0o077, 0o177} {
			t.Run(fmt.Sprintf("%o %o umask %03o", permissions.File, permissions.Directory, umask), func(t *testing.T) {
				parent := t.TempDir()
				o := usually()
				o.Permissions = permissions
				w := NewWriter(disk.At(filepath.Join(parent, directory)), o, &spy{})
				defer w.Close()
				withUmask(umask, func() {
					require.NoError(t, w.Prepare())
					require.NoError(t, w.Append(theKey, []byte("a\n")))
				})
				check(t, parent, permissions)
			})
		}
	}
}

// What exists keeps its own permissions: somebody gave them to it.
func TestPermissionsOfWhatIsThere(t *testing.T) {
	needsMarks(t)
	directory := filepath.Join(t.TempDir(), "directory")
	before := writerIn(t, directory)
	require.NoError(t, before.Append(theKey, []byte("a\n")))
	before.Close()
	require.NoError(t, os.Chmod(filepath.Join(directory, hour, name), 0o604))
	require.NoError(t, os.Chmod(filepath.Join(directory, hour), 0o711))
	require.NoError(t, os.Chmod(directory, 0o711))

	w := writerIn(t, directory)
	require.NoError(t, w.Prepare())
	require.NoError(t, w.Append(theKey, []byte("b\n")))
	assert.Equal(t, "a\nb\n", contentOf(t, directory, hour, name))
	assert.Equal(t, fs.FileMode(0o604), permissionsOf(t, directory, hour, name))
	assert.Equal(t, fs.FileMode(0o711), permissionsOf(t, directory, hour))
	assert.Equal(t, fs.FileMode(0o711), permissionsOf(t, directory))
}

// Nothing but a file is written to, and what is there instead does not keep the lines from a file.
func TestSomethingInTheFilesPlace(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for what, put := range map[string]func(path string) error{
		"a directory":                func(path string) error { return os.Mkdir(path, 0o700) },
		"a FIFO":                     func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link to a device":         func(path string) error { return os.Symlink(os.DevNull, path) },
		"a link to a file outside":   func(path string) error { return os.Symlink(outside, path) },
		"a link to a file inside":    func(path string) error { return os.Symlink("../other", path) },
		"a link to nothing":          func(path string) error { return os.Symlink("none", path) },
		"a link to nothing, outside": func(path string) error { return os.Symlink(outside+"-none", path) },
		"a socket": func(path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			return syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
		},
	} {
		t.Run(what, func(t *testing.T) {
			directory, err := os.MkdirTemp("", "hourly") // a socket's path must be short
			require.NoError(t, err)
			defer os.RemoveAll(directory)
			require.NoError(t, os.WriteFile(outside, []byte("outside\n"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(directory, "other"), []byte("inside\n"), 0o600))
			path := filepath.Join(directory, hour, name)
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			require.NoError(t, put(path))
			before, err := os.Lstat(path)
			require.NoError(t, err)

			w := writerIn(t, directory)
			require.NoError(t, w.Append(theKey, []byte("a\n")))
			assert.Equal(t, "outside\n", contentOf(t, outside))
			assert.NoFileExists(t, outside+"-none")
			assert.Equal(t, "inside\n", contentOf(t, directory, "other"))
			after, err := os.Lstat(path)
			require.NoError(t, err)
			assert.Equal(t, before.Mode(), after.Mode(), "it is still there")
			assert.Equal(t, "a\n", contentOf(t, otherFile(t, directory)))
		})
	}
}

// otherFile is the one file of the hour beside the usual name.
func otherFile(t *testing.T, directory string) string {
	found, err := filepath.Glob(filepath.Join(directory, hour, "raw-4711-*.jsonl"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// Who reads a FIFO in the file's place does not get the lines.
func TestFIFOWithAReader(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, hour, name)
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer reader.Close()
	require.NoError(t, writerIn(t, directory).Append(theKey, []byte("not for you\n")))
	read, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Empty(t, read)
}

// No link is followed, also not one to another place in the directory.
func TestLinkInTheHoursPlace(t *testing.T) {
	for _, target := range []string{"outside", "../outside", "elsewhere"} {
		t.Run(target, func(t *testing.T) {
			parent := t.TempDir()
			outside, directory := filepath.Join(parent, "outside"), filepath.Join(parent, "directory")
			require.NoError(t, os.Mkdir(outside, 0o700))
			require.NoError(t, os.MkdirAll(filepath.Join(directory, "elsewhere"), 0o700))
			if target == "outside" {
				target = outside
			}
			require.NoError(t, os.Symlink(target, filepath.Join(directory, hour)))
			err := writerIn(t, directory).Append(theKey, []byte("a\n"))
			assert.ErrorIs(t, err, disk.ErrNotDirectory)
			assert.Empty(t, filesBelow(t, outside))
			assert.Empty(t, filesBelow(t, filepath.Join(directory, "elsewhere")))
		})
	}
}

// The directory itself may be a link: whoever configured it meant it.
func TestDirectoryMayBeALink(t *testing.T) {
	parent := t.TempDir()
	target, link := filepath.Join(parent, "target"), filepath.Join(parent, "link")
	require.NoError(t, os.Mkdir(target, 0o700))
	require.NoError(t, os.Symlink(target, link))
	w := writerIn(t, link)
	require.NoError(t, w.Prepare())
	require.NoError(t, w.Append(theKey, []byte("a\n")))
	assert.Equal(t, "a\n", contentOf(t, target, hour, name))
}

// Two writers of one process do not get the same file either, should two paths lead to one directory.
func TestTwoWriters(t *testing.T) {
	parent := t.TempDir()
	directory, link := filepath.Join(parent, "directory"), filepath.Join(parent, "link")
	require.NoError(t, os.Mkdir(directory, 0o700))
	require.NoError(t, os.Symlink(directory, link))
	first, second := writerIn(t, directory), writerIn(t, link)
	require.NoError(t, first.Append(theKey, []byte("a\n")))
	require.NoError(t, second.Append(theKey, []byte("b\n")))
	require.NoError(t, first.Append(theKey, []byte("c\n")))
	assert.Equal(t, "a\nc\n", contentOf(t, directory, hour, name))
	assert.Equal(t, "b\n", contentOf(t, otherFile(t, directory)))
}

// A torn line of a process before, on a file system of this machine, is cut off.
func TestTornLine(t *testing.T) {
	needsMarks(t)
	directory := t.TempDir()
	before := writerIn(t, directory)
	require.NoError(t, before.Append(theKey, []byte("whole\n")))
	before.Close()
	path := filepath.Join(directory, hour, name)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = io.WriteString(file, strings.Repeat("torn", 50_000))
	require.NoError(t, err)
	require.NoError(t, file.Close())

	require.NoError(t, writerIn(t, directory).Append(theKey, []byte("a\n")))
	assert.Equal(t, "whole\na\n", contentOf(t, path))
}
