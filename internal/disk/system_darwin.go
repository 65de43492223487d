package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// locksAreKept reports whether the file system is stored on this machine.
func locksAreKept(directory *os.File) (bool, error) {
	var stat unix.Statfs_t
	err := control(directory, func(fd int) error { return unix.Fstatfs(fd, &stat) })
	return stat.Flags&unix.MNT_LOCAL != 0, err
}

// blockSize is the unit in which blocks are counted.
func blockSize(stat *unix.Statfs_t) int64 { return int64(stat.Bsize) }
