//go:build unix

package hourly

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
				w := NewWriter(filepath.Join(parent, directory), pid, permissions, System())
				withUmask(umask, func() {
					require.NoError(t, w.Prepare())
					require.NoError(t, w.Append(hour, []byte("a\n")))
				})
				check(t, parent, permissions)
			})
		}
	}
}

// What exists keeps its own permissions: somebody gave them to it.
func TestPermissionsOfWhatIsThere(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "directory")
	withUmask(0, func() {
		require.NoError(t, os.MkdirAll(filepath.Join(directory, hour), 0o711))
		require.NoError(t, os.WriteFile(filepath.Join(directory, hour, name), nil, 0o604))
	})
	w := writerIn(directory)
	require.NoError(t, w.Prepare())
	require.NoError(t, w.Append(hour, []byte("a\n")))
	assert.Equal(t, fs.FileMode(0o604), permissionsOf(t, directory, hour, name))
	assert.Equal(t, fs.FileMode(0o711), permissionsOf(t, directory, hour))
	assert.Equal(t, fs.FileMode(0o711), permissionsOf(t, directory))
}

// A FIFO waits for a reader, for ever if need be: the writer must not.
func TestFIFOInTheFilesPlace(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, hour, name)
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	w := writerIn(directory)
	assert.Error(t, w.Append(hour, []byte("lost\n")))

	t.Run("with a reader", func(t *testing.T) {
		reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		require.NoError(t, err)
		defer reader.Close()
		assert.Error(t, w.Append(hour, []byte("not for you\n")))
		read, err := io.ReadAll(reader)
		require.NoError(t, err)
		assert.Empty(t, read)
	})
	require.NoError(t, os.Remove(path))
	assert.NoError(t, w.Append(hour, []byte("a\n")))
}

func TestDeviceInTheFilesPlace(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, hour, name)
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, os.Symlink(os.DevNull, path))
	assert.Error(t, writerIn(directory).Append(hour, []byte("lost\n")), "output must not go where nobody finds it")
}

// Links inside the directory are its owner's; they may not lead elsewhere.
func TestLinks(t *testing.T) {
	for _, test := range []struct {
		name    string
		link    func(outside, directory string) (target, path string)
		refused bool
	}{
		{"an hour outside", func(outside, directory string) (string, string) {
			return outside, filepath.Join(directory, hour)
		}, true},
		{"an hour outside, by a relative link", func(_, directory string) (string, string) {
			return filepath.Join("..", "outside"), filepath.Join(directory, hour)
		}, true},
		{"a file outside", func(outside, directory string) (string, string) {
			return filepath.Join(outside, "file"), filepath.Join(directory, hour, name)
		}, true},
		{"a file outside that is not there", func(outside, directory string) (string, string) {
			return filepath.Join(outside, "none"), filepath.Join(directory, hour, name)
		}, true},
		{"a link to nothing", func(_, directory string) (string, string) {
			return "none", filepath.Join(directory, hour, name)
		}, true},
		{"an hour inside", func(_, directory string) (string, string) {
			return "elsewhere", filepath.Join(directory, hour)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := t.TempDir()
			outside, directory := filepath.Join(parent, "outside"), filepath.Join(parent, "directory")
			require.NoError(t, putFile(filepath.Join(outside, "file")))
			require.NoError(t, os.MkdirAll(filepath.Join(directory, "elsewhere"), 0o700))
			target, path := test.link(outside, directory)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.Symlink(target, path))

			err := writerIn(directory).Append(hour, []byte("a\n"))
			assert.Equal(t, []string{"file"}, filesBelow(t, outside))
			assert.Equal(t, "in the way", contentOf(t, outside, "file"))
			if test.refused {
				assert.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "a\n", contentOf(t, directory, "elsewhere", name))
		})
	}
}

// The directory itself may be a link: whoever configured it meant it.
func TestDirectoryMayBeALink(t *testing.T) {
	parent := t.TempDir()
	target, link := filepath.Join(parent, "target"), filepath.Join(parent, "link")
	require.NoError(t, os.Mkdir(target, 0o700))
	require.NoError(t, os.Symlink(target, link))
	w := writerIn(link)
	require.NoError(t, w.Prepare())
	require.NoError(t, w.Append(hour, []byte("a\n")))
	assert.Equal(t, "a\n", contentOf(t, target, hour, name))
}
