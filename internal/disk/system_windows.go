package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const hasPermissions = false

// toAppend opens a file to append to it and to read how it ends. What is opened with O_APPEND can't be cut off on Windows.
const toAppend = os.O_RDWR

// Write appends. The file is locked: nobody else does at the same time.
func (f osFile) Write(data []byte) (int, error) {
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	return f.File.Write(data)
}

// farAway is where the locked byte is: locks of Windows keep readers out, and no file reaches that far.
const farAway = 0x7fff_ffff

func lock(file *os.File) error {
	at := &windows.Overlapped{Offset: 0xffff_fffe, OffsetHigh: farAway}
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

// A file is not marked on Windows.
func mark(*os.File, bool) error { return errors.ErrUnsupported }
func marked(*os.File) bool      { return false }

// locksAreKept: a server keeps the locks on its files itself.
func locksAreKept(*os.File) (bool, error) { return true, nil }

func free(directory string) (int64, error) {
	name, err := windows.UTF16PtrFromString(directory)
	if err != nil {
		return 0, err
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: directory, Err: err}
	}
	return int64(min(available, 1<<63-1)), nil
}

// syncDirectory has nothing to do: a directory can't be synced.
func syncDirectory(*os.File) error { return nil }

// ownership is not looked into: files have owners of another kind, and keep a name while they are open.
func ownership(fs.FileInfo) (othersOwn, unlinked bool) { return false, false }
