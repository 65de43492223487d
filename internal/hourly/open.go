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
	if _, err := w.disk.Mkdir(key.Hour, w.options.Permissions.Directory); err != nil {
		return nil, err
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
	if w.suffixed != nil {
		return nil, taken(w.suffixed)
	}
	switch locks, err := w.disk.Locks(key.Hour); {
	case err != nil:
		return nil, err
	case !locks:
		return nil, taken(errNoLocks)
	}
	by := byLock
	if key.PID == w.pid {
		by = byPID
	}
	return w.take(path.Join(key.Hour, layout.Name{PID: key.PID}.String()), by)
}

func (w *Writer) suffixedPath(key Key) string {
	return path.Join(key.Hour, layout.Name{PID: key.PID, Suffix: w.suffix}.String())
}

// errTaken says that another name is to be taken. The others are reasons, but for errMoved.
var (
	errTaken        = errors.New("the usual name can't be had")
	errNoLocks      = errors.New("the file system is not known to keep locks")
	errSyncFailed   = errors.New("an fsync of the file failed")
	errSomebodyElse = errors.New("somebody else writes to the file")
	errMayBeLive    = errors.New("somebody else may be writing to the file, who changed it lately")
	errOtherUser    = errors.New("the file belongs to another user")
	errCompressed   = errors.New("the file has a compressed copy")
	errMoved        = errors.New("the file was moved away again and again")
)

func taken(reason error) error { return fmt.Errorf("%w: %w", errTaken, reason) }

// right is what makes a file ours.
type right int

const (
	byLock right = iota // anybody may have used the name before, and may be using it
	byPID               // our process id is in it: who used it before is gone
	byName              // our suffix is in it
)

// tries is how often a file is opened that is moved away meanwhile.
const tries = 3

// take opens the file of a name, or makes it, and makes sure that it is whole and nobody else's.
func (w *Writer) take(path string, by right) (*openFile, error) {
	if reason, ok := w.avoided[path]; ok {
		return nil, taken(reason)
	}
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
		if !errors.Is(err, errTaken) && !errors.Is(err, errMoved) { // it is locked
			err = errors.Join(err, w.removeEmpty(path, file))
		}
		return nil, errors.Join(err, file.Close())
	}
	return &openFile{File: file, path: path, made: true}, nil
}

// claim locks a file that we made and marks it as ours. Where it can't be marked, but has to, it is removed again.
func (w *Writer) claim(path string, file disk.File, by right) error {
	if err := w.lock(path, file, by); err != nil {
		return err
	}
	err := file.Mark(true)
	if err == nil || by == byName || !w.options.Recognizable {
		return nil
	}
	if errors.Is(err, errors.ErrUnsupported) { // no file can: none with the usual name is made any more
		w.suffixed = err
	}
	return taken(errors.Join(err, w.removeEmpty(path, file)))
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
	if err := w.mayAppend(path, file, info, by); err != nil {
		return nil, err
	}
	whole, err := tail.Whole(file, info.Size)
	if err != nil {
		return nil, taken(err)
	}
	if whole < info.Size {
		if err := w.repair(file, info, whole, by); err != nil {
			return nil, taken(err)
		}
		w.observer.TornTail(info.Size - whole)
	}
	return &openFile{File: file, path: path, size: whole, safe: whole, dirty: true}, nil // who wrote it may not have synced it
}

// mayAppend fails where another name is to be taken, though nobody has the file locked.
func (w *Writer) mayAppend(path string, file disk.File, info disk.Info, by right) error {
	if by != byName {
		switch {
		case info.OthersOwn:
			return taken(errOtherUser)
		case !file.Marked() && !isQuiet(info):
			return taken(errMayBeLive)
		}
	}
	if info.Size == 0 {
		return nil
	}
	return w.mustNotBeCompressed(path)
}

// mustNotBeCompressed fails where a file has a compressed copy: a process was killed before it removed the file, which is to
// be done yet.
func (w *Writer) mustNotBeCompressed(file string) error {
	name, _ := layout.Parse(path.Base(file))
	name.Compressed = true
	compressed, err := w.disk.Open(path.Join(path.Dir(file), name.String()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, disk.ErrNotRegular), errors.Is(err, fs.ErrPermission):
		return taken(errCompressed)
	case err != nil:
		return err
	}
	return errors.Join(taken(errCompressed), compressed.Close())
}

// isQuiet reports whether nobody is within a line of a file, going by its last change.
func isQuiet(info disk.Info) bool { return time.Since(info.Modified) >= tail.Quiet }

// repair cuts off a torn tail, where nobody is writing it: it is old, or left by the process that had our process id before.
func (w *Writer) repair(file disk.File, info disk.Info, whole int64, by right) error {
	switch {
	case by == byName:
		return errSomebodyElse // we left it whole
	case isQuiet(info), by == byPID && info.Modified.Before(w.began):
		return file.Truncate(whole)
	}
	return errMayBeLive
}

// lock locks a file, and makes sure that its name is still its own: it may have been removed before it was locked.
func (w *Writer) lock(path string, file disk.File, by right) error {
	if err := file.Lock(); errors.Is(err, disk.ErrLocked) || err != nil && by != byName {
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
