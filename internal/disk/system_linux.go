package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// keepLocks are the file systems whose locks one kernel keeps, by the numbers of statfs(2). A list of those that do not would
// never be complete: what is not here is not relied on.
var keepLocks = map[uint32]bool{
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.EXT4_SUPER_MAGIC:      true, // ext2 and ext3 too
	unix.F2FS_SUPER_MAGIC:      true,
	unix.MSDOS_SUPER_MAGIC:     true,
	unix.EXFAT_SUPER_MAGIC:     true,
	unix.NILFS_SUPER_MAGIC:     true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
	unix.RAMFS_MAGIC:           true,
	unix.REISERFS_SUPER_MAGIC:  true,
	unix.TMPFS_MAGIC:           true,
	unix.XFS_SUPER_MAGIC:       true,
	0x2fc12fc1:                 true, // ZFS
	0xca451a4e:                 true, // bcachefs
}

func locksAreKept(directory *os.File) (bool, error) {
	var stat unix.Statfs_t
	err := control(directory, func(fd int) error { return unix.Fstatfs(fd, &stat) })
	return keepLocks[uint32(stat.Type)], err
}

// blockSize is the unit in which blocks are counted; Bsize is that of transfers.
func blockSize(stat *unix.Statfs_t) int64 { return int64(stat.Frsize) }
