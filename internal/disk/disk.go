// Package disk is the little that the hourly files need of a file system: regular files below one directory, opened so that
// no link leads out of it and nothing but a file is written to, locked against other processes, and marked as ours.
//
// FS and File are narrow so that a test can let each call fail, and lose what was not synced (package disktest).
package disk // import "github.com/otel-rawoutput/rawoutput/internal/disk"

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// What may be the matter with a file beside what the system says.
var (
	// ErrLocked says that somebody else has the lock.
	ErrLocked = errors.New("another writer has it locked")
	// ErrNotRegular says that the name is not that of a file: a link, a FIFO, a device, a directory.
	ErrNotRegular = errors.New("it is not a regular file")
	// ErrNotDirectory says that the name is not that of a directory; a link to one is none.
	ErrNotDirectory = errors.New("it is not a directory")
)

// FS is a directory of a file system. Paths are below it, with slashes.
type FS interface {
	// MakeAll makes the directory itself and those above it where they are missing.
	MakeAll(mode fs.FileMode) error
	// Mkdir makes a directory below it. made is false where there was one.
	Mkdir(path string, mode fs.FileMode) (made bool, err error)
	// Create makes a file and opens it to read and append. It fails with fs.ErrExist where the name is taken.
	Create(path string, mode fs.FileMode) (File, error)
	// Open opens a regular file to read and append.
	Open(path string) (File, error)
	// Is reports whether the path is (still) the name of the file.
	Is(path string, file File) (bool, error)
	// Walk calls f with each entry of a directory ("." is the directory itself), in no order, until it returns an error. It
	// holds few of them in memory at a time.
	Walk(path string, f func(Info) error) error
	// Rename gives a file another name. What had that name is gone.
	Rename(from, to string) error
	// Remove removes a file, or a directory that is empty.
	Remove(path string) error
	// Touch sets the time of the last change.
	Touch(path string, modified time.Time) error
	// SyncDirectory makes safe what was made in a directory, renamed or removed.
	SyncDirectory(path string) error
	// Locks reports whether locks on files in a directory can be relied on.
	Locks(path string) (bool, error)
	// Free is how many bytes can still be written.
	Free() (int64, error)
}

// File is an open file. Write appends, and returns an error if it wrote less than all.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Stat() (Info, error)
	Truncate(size int64) error
	Sync() error
	// Lock takes the file's lock, until it is closed; ErrLocked says that somebody else has it.
	Lock() error
	// Mark marks the file as ours, or takes the mark off.
	Mark(ours bool) error
	// Marked reports whether the file is marked as ours. Where files can't be marked none is.
	Marked() bool
}

// Info is what a directory, or a file itself, says of a file.
type Info struct {
	Name     string // the last element of its path
	Size     int64
	Modified time.Time
	Mode     fs.FileMode
	// As far as the system tells:
	OthersOwn bool // it belongs to another user than this process's
	Unlinked  bool // it has no name any more, though it is open
}
