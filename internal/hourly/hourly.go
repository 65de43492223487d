// Package hourly appends lines to the hourly files of a directory, <directory>/<hour>/raw-<pid>.jsonl. It knows neither
// what a line means nor when to try again.
//
// A call to Append writes its lines in one piece or not at all: what a failed or short write left of them is cut off again,
// and where that fails too, the error says so (ErrUncertain).
// Where a file ends within a line, that line is ended first, so that it spoils no other.
// Files are opened for each call, below the directory whatever links may be in it, so that one that was moved or deleted is
// made anew; nothing is held in between.
package hourly // import "github.com/otel-rawoutput/rawoutput/internal/hourly"

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
)

// Permissions of what is made, whatever the umask. What exists keeps its own.
type Permissions struct{ File, Directory fs.FileMode }

// Writer appends to the files of one directory. It is safe for concurrent use.
type Writer struct {
	directory   string
	name        string // of each file
	permissions Permissions
	files       FileSystem
	mu          *sync.Mutex // of all writers of this process in this directory: they write to the same files
}

// NewWriter returns a writer for a directory, which need not exist yet. pid names the files. files is System() but in tests.
func NewWriter(directory string, pid int, permissions Permissions, files FileSystem) *Writer {
	return &Writer{
		directory:   directory,
		name:        "raw-" + strconv.Itoa(pid) + ".jsonl",
		permissions: permissions,
		files:       files,
		mu:          lockOf(directory),
	}
}

// locks has the lock of each directory that this process ever wrote to: as many as its configurations named.
var locks sync.Map

func lockOf(directory string) *sync.Mutex {
	if absolute, err := filepath.Abs(directory); err == nil {
		directory = absolute
	}
	mu, _ := locks.LoadOrStore(directory, new(sync.Mutex))
	return mu.(*sync.Mutex)
}

// Prepare makes the directory and checks that a file can be made in it.
func (w *Writer) Prepare() error {
	if err := w.files.MakeDirectory(w.directory, w.permissions.Directory); err != nil {
		return err
	}
	return w.files.Probe(w.directory)
}

// Append appends whole lines to the file of an hour (2026-11-04T05).
func (w *Writer) Append(hour string, lines []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	file, err := w.files.OpenAppend(w.directory, hour, w.name, w.permissions)
	if err != nil {
		return err
	}
	err = appendWhole(file, lines)
	if errClose := file.Close(); errClose != nil && err == nil {
		return fmt.Errorf("%w: %w", ErrUncertain, errClose)
	}
	return err
}

// ErrUncertain says that some of the lines may be in the file: what a failed write left of them could not be cut off, or the
// file could not be closed, which on a network file system may mean that they are lost. To append them again might double
// them.
var ErrUncertain = errors.New("perhaps written in part, or not kept")

// appendWhole appends the lines, or leaves the file as it was.
func appendWhole(file File, lines []byte) error {
	size, err := file.Size()
	if err != nil {
		return err
	}
	torn, err := isTorn(file, size)
	if err != nil {
		return err
	}
	if torn {
		lines = append([]byte{'\n'}, lines...)
	}
	written, err := file.Write(lines)
	if err == nil || written == 0 {
		return err
	}
	if errCut := file.Truncate(size); errCut != nil {
		return fmt.Errorf("%w: %w, and then %w", ErrUncertain, err, errCut)
	}
	return err
}

// isTorn reports whether the file ends within a line, as one may that was written to when its process was killed. What is
// appended then must not become the end of that line.
func isTorn(file File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], size-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
