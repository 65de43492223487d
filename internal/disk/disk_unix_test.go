//go:build linux || darwin

package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where files get the group of the directory that they are in, they do in the directories that are made, whatever the umask.
func TestGroupOfTheDirectory(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		t.Run(fmt.Sprintf("umask %03o", umask), func(t *testing.T) {
			defer syscall.Umask(syscall.Umask(umask))
			parent := t.TempDir()
			require.NoError(t, os.Chmod(parent, 0o750|fs.ModeSetgid))
			if info, err := os.Stat(parent); err != nil || info.Mode()&fs.ModeSetgid == 0 {
				t.Skip("this system does not do so")
			}
			d := At(filepath.Join(parent, "directory"))
			require.NoError(t, d.MakeAll(0o750))
			_, err := d.Mkdir(hour, 0o750)
			require.NoError(t, err)
			for _, directory := range []string{"directory", "directory/" + hour} {
				info, err := os.Stat(filepath.Join(parent, directory))
				require.NoError(t, err)
				assert.Equal(t, fs.ModeDir|fs.ModeSetgid|0o750, info.Mode(), directory)
			}
		})
	}
}

// An open file that was removed says so.
func TestUnlinked(t *testing.T) {
	d, _ := inHour(t)
	file := create(t, d, hour+"/a", "")
	unlinked := func() bool {
		info, err := file.Stat()
		require.NoError(t, err)
		return info.Unlinked
	}
	assert.False(t, unlinked())
	require.NoError(t, d.Rename(hour+"/a", hour+"/b"))
	assert.False(t, unlinked())
	require.NoError(t, d.Remove(hour+"/b"))
	assert.True(t, unlinked())
}

// A file of another user is told from one of our own.
func TestOthersOwn(t *testing.T) {
	d, directory := inHour(t)
	file := create(t, d, hour+"/a", "")
	info, err := file.Stat()
	require.NoError(t, err)
	assert.False(t, info.OthersOwn)
	if err := os.Chown(filepath.Join(directory, hour, "a"), os.Geteuid()+1, -1); err != nil {
		t.Skipf("a file can't be given to another user: %v", err)
	}
	info, err = file.Stat()
	require.NoError(t, err)
	assert.True(t, info.OthersOwn)
}
