package hourly

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/layout"
	"github.com/otel-rawoutput/rawoutput/internal/tail"
)

// fileOf returns the open file of a key, or opens one.
func (w *Writer) fileOf(key Key, now time.Time) (*openFile, error) {
	if file, ok := w.open[key]; ok {
		if w.isStillOurs(file, now) {
			file.used = now
			return file, nil
		}
		w.close(key)
	}
	if len(w.open) >= w.options.MaxOpen {
		w.close(w.leastRecentlyUsed())
	}
	file, err := w.openAny(key)
	if err != nil {
		return nil, err
	}
	file.used, file.checked = now, now
	w.open[key] = file
	w.observer.Opened(1)
	return file, nil
}

// isStillOurs reports whether to go on with an open file: nobody moved it away, and nobody else wrote to it.
func (w *Writer) isStillOurs(file *openFile, now time.Time) bool {
	if now.Sub(file.checked) >= everySecond {
		if is, err := w.disk.Is(file.path, file.File); err != nil || !is {
			return false
		}
		file.checked = now
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	if info.Size != file.size { // they may be within a line
		_ = file.Mark(false) // it may not have one
		w.leaveName(file.path)
		return false
	}
	return true
}

// leaveName sees to it that a name is not used again where it is our own; the usual one tells by itself.
func (w *Writer) leaveName(used string) {
	if name, ok := layout.Parse(path.Base(used)); ok && name.Suffix == w.suffix {
		w.suffix = layout.NewSuffix()
	}
}

func (w *Writer) leastRecentlyUsed() (least Key) {
	first := true
	for key, file := range w.open {
		if first || file.used.Before(w.open[least].used) {
			least, first = key, false
		}
	}
	return least
}

// openAny opens the first file of a key that can be had.
func (w *Writer) openAny(key Key) (*openFile, error) {
	file, err := w.openIn(key)
	if errors.Is(err, fs.ErrNotExist) { // an empty hour, or the directory itself, was removed meanwhile
		if err = w.disk.MakeAll(w.options.Permissions.Directory); err == nil {
			file, err = w.openIn(key)
		}
	}
	return file, err
}

func (w *Writer) openIn(key Key) (*openFile, error) {
	made, err := w.disk.Mkdir(key.Hour, w.options.Permissions.Directory)
	if err != nil {
		return nil, err
	}
	if made {
		w.noteUnsynced(".", aDirectory)
	}
	file, err := w.openUsual(key)
	if !errors.Is(err, errTaken) {
		return file, err
	}
	reason := err
	if file, err = w.take(w.suffixedPath(key), byName); errors.Is(err, errTaken) { // nobody should, but somebody did
		w.suffix = layout.NewSuffix()
		file, err = w.take(w.suffixedPath(key), byName)
	}
	if err == nil {
		w.observer.TookSuffix(file.path, reason)
	}
	return file, err
}

// openUsual opens the file with the usual name, or fails with errTaken.
func (w *Writer) openUsual(key Key) (*openFile, error) {
	if w.suffixed {
		return nil, taken(errSyncFailed)
	}
	switch locks, err := w.disk.Locks(key.Hour); {
	case err != nil:
		return nil, err
	case !locks:
		return nil, taken(errNoLocks)
	}
	return w.take(path.Join(key.Hour, layout.Name{PID: key.PID}.String()), byLock)
}

func (w *Writer) suffixedPath(key Key) string {
	return path.Join(key.Hour, layout.Name{PID: key.PID, Suffix: w.suffix}.String())
}

// errTaken says that another name is to be taken. The others are reasons, but for errMoved.
var (
	errTaken        = errors.New("the usual name can't be had")
	errNoLocks      = errors.New("the file system is not known to keep locks")
	errSyncFailed   = errors.New("an fsync failed")
	errSomebodyElse = errors.New("somebody else writes to the file")
	errMayBeLive    = errors.New("somebody else made the file and changed it lately")
	errMoved        = errors.New("the file was moved away again and again")
)

func taken(reason error) error { return fmt.Errorf("%w: %w", errTaken, reason) }

// right is what makes a file ours.
type right int

const (
	byLock right = iota // anybody may have used the name before
	byName              // our suffix is in it
)

// tries is how often a file is opened that is moved away meanwhile.
const tries = 3

// take opens the file of a name, or makes it, and makes sure that it is whole and nobody else's.
func (w *Writer) take(path string, by right) (*openFile, error) {
	for range tries {
		file, err := w.openOrCreate(path, by)
		if err == nil || !errors.Is(err, errMoved) {
			return file, err
		}
	}
	return nil, errMoved
}

func (w *Writer) openOrCreate(path string, by right) (*openFile, error) {
	file, err := w.disk.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return w.create(path, by)
	case errors.Is(err, disk.ErrNotRegular), errors.Is(err, fs.ErrPermission):
		return nil, taken(err)
	case err != nil:
		return nil, err
	}
	opened, err := w.adopt(path, file, by)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return opened, nil
}

func (w *Writer) create(path string, by right) (*openFile, error) {
	file, err := w.disk.Create(path, w.options.Permissions.File)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return nil, errMoved
	}
	if err != nil {
		return nil, err
	}
	if err := w.claim(path, file, by); err != nil {
		err = errors.Join(err, file.Close())
		if !errors.Is(err, disk.ErrLocked) && !errors.Is(err, errMoved) { // else it is somebody's
			err = errors.Join(err, w.disk.Remove(path))
		}
		return nil, err
	}
	w.noteUnsynced(directoryOf(path), aDirectory)
	return &openFile{File: file, path: path}, nil
}

// claim locks a file that we made and marks it as ours.
func (w *Writer) claim(path string, file disk.File, by right) error {
	if err := w.lock(path, file, by); err != nil {
		return err
	}
	if err := file.Mark(true); err != nil && by == byLock && w.options.Recognizable {
		return taken(err)
	}
	return nil
}

// adopt makes sure of a file that was there.
func (w *Writer) adopt(path string, file disk.File, by right) (*openFile, error) {
	if err := w.lock(path, file, by); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if by == byLock && !file.Marked() && time.Since(info.Modified) < quiet {
		return nil, taken(errMayBeLive)
	}
	whole, err := tail.Whole(file, info.Size)
	if err != nil {
		return nil, taken(err)
	}
	if whole < info.Size {
		if err := w.repair(file, whole, by); err != nil {
			return nil, taken(err)
		}
		w.observer.TornTail(info.Size - whole)
	}
	return &openFile{File: file, path: path, size: whole, dirty: whole < info.Size}, nil
}

// quiet is how long a file must not have changed for nobody to be within a line of it.
const quiet = time.Minute

// repair cuts off a torn tail, where locks say that nobody is writing it.
func (w *Writer) repair(file disk.File, whole int64, by right) error {
	if by == byName {
		return errSomebodyElse // we left it whole
	}
	return file.Truncate(whole)
}

// lock locks a file, and makes sure that its name is still its own: it may have been removed before it was locked.
func (w *Writer) lock(path string, file disk.File, by right) error {
	if err := file.Lock(); errors.Is(err, disk.ErrLocked) || err != nil && by == byLock {
		return taken(err)
	}
	switch is, err := w.disk.Is(path, file); {
	case err != nil:
		return err
	case !is:
		return errMoved
	}
	return nil
}
