//go:build linux || darwin

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const hasPermissions = true

// lock takes the lock of the open file description: another one of the same process has to wait too, and it goes with the
// last descriptor, whatever ends the process.
func lock(file *os.File) error {
	return control(file, func(fd int) error {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return ErrLocked
		}
		return err
	})
}

// mark marks the file with an extended attribute.
func mark(file *os.File, ours bool) error {
	return control(file, func(fd int) error {
		if ours {
			return unix.Fsetxattr(fd, markName, []byte("1"), 0)
		}
		return unix.Fremovexattr(fd, markName)
	})
}

// markName is in the namespace that Linux gives to users; macOS has one for all.
const markName = "user.raw_output"

func marked(file *os.File) bool {
	return control(file, func(fd int) error {
		_, err := unix.Fgetxattr(fd, markName, nil)
		return err
	}) == nil
}

// free is what a user without privileges can still write.
func free(directory string) (int64, error) {
	var stat unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(directory, &stat) }); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: directory, Err: err}
	}
	return int64(stat.Bavail) * blockSize(&stat), nil
}

func ownership(info fs.FileInfo) (othersOwn, unlinked bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid(), ok && stat.Nlink == 0
}

// control calls f with the descriptor, again where a signal interrupted it.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) {
		result = retryInterrupted(func() error { return f(int(fd)) })
	}); err != nil {
		return err
	}
	return result
}

func retryInterrupted(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// syncDirectory syncs a directory. Some file systems have nothing to sync there, and say so.
func syncDirectory(directory *os.File) error {
	err := directory.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}
