package disk

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file system that is not known to keep locks is not relied on; that of /proc stands for one.
func TestLocksOfUnknownFileSystems(t *testing.T) {
	locks, err := At("/proc").Locks(".")
	require.NoError(t, err)
	assert.False(t, locks)
	for number, want := range map[uint32]bool{
		unix.EXT4_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.XFS_SUPER_MAGIC: true,
		unix.NFS_SUPER_MAGIC: false, unix.SMB_SUPER_MAGIC: false, unix.SMB2_SUPER_MAGIC: false, unix.CIFS_SUPER_MAGIC: false,
		unix.FUSE_SUPER_MAGIC: false, unix.V9FS_MAGIC: false, unix.CEPH_SUPER_MAGIC: false, unix.AFS_SUPER_MAGIC: false,
	} {
		assert.Equal(t, want, keepLocks[number], "%#x", number)
	}
}

// A disk is full at a write, as /dev/full is always.
func TestFullDevice(t *testing.T) {
	file, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there is no /dev/full: %v", err)
	}
	defer file.Close()
	n, err := osFile{file}.Write([]byte("a\n"))
	assert.Zero(t, n)
	assert.ErrorIs(t, err, unix.ENOSPC)
}
