package hourly

import (
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/layout"
)

// borrow returns the open file of a key, or opens one. It must be given back. It waits where as many files are open as may
// be, until somebody gives one back, and where too many paths wait to be synced.
func (w *Writer) borrow(key Key) (*openFile, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed {
		file, isOpen := w.open[key]
		switch {
		case isOpen && !file.retired:
			return lend(file), nil
		case !isOpen && w.hasRoom():
			file, err := w.openAny(key)
			if err != nil {
				return nil, err
			}
			w.opened(key, file)
			return lend(file), nil
		}
		w.changed.Wait()
	}
	return nil, ErrClosed
}

func lend(file *openFile) *openFile {
	file.users++
	file.used = time.Now()
	return file
}

func (w *Writer) opened(key Key, file *openFile) {
	file.key, file.checked = key, time.Now()
	w.open[key] = file
	w.noteNames(file)
	w.observer.Opened(1)
}

// giveBack is the end of each borrow.
func (w *Writer) giveBack(file *openFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	file.users--
	w.closeIfUnused(file)
	w.changed.Broadcast()
}

// hasRoom reports whether one more file may be opened. Where it may not, it sees to it that one may be soon.
func (w *Writer) hasRoom() bool {
	if len(w.open) >= w.options.MaxOpen {
		w.retireOne()
	}
	if len(w.unsynced) >= mostUnsynced {
		w.syncSoon()
		return false
	}
	return len(w.open) < w.options.MaxOpen
}

// retireOne retires a file that nobody uses, else any, the least recently used one; unless one is about to be closed.
func (w *Writer) retireOne() {
	var least *openFile
	for _, file := range w.open {
		if file.retired {
			return
		}
		if least == nil || isUsedLess(file, least) {
			least = file
		}
	}
	w.retire(least)
}

func isUsedLess(a, b *openFile) bool {
	if inUse := a.users > 0; inUse != (b.users > 0) {
		return !inUse
	}
	return a.used.Before(b.used)
}

// retire closes a file, or has its last user do so.
func (w *Writer) retire(file *openFile) {
	file.retired = true
	w.closeIfUnused(file)
}

func (w *Writer) closeIfUnused(file *openFile) {
	if file.retired && file.users == 0 {
		w.close(file)
	}
}

// end sees to it that nothing is appended to a file any more. Its writing is locked.
func (w *Writer) end(file *openFile) {
	file.ended = true
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retire(file)
}

// close closes an open file that nobody uses. What is not safe is noted.
func (w *Writer) close(file *openFile) {
	delete(w.open, file.key)
	switch info, err := file.Stat(); {
	case err == nil && info.Size != file.size:
		w.disown(file)
	case file.made && file.size == 0 && w.avoided[file.path] != nil: // nothing was acknowledged, and nothing more is written
		_ = w.removeEmpty(file.path, file.File)
	}
	if file.dirty {
		w.noteUnsynced(file.path, aFile)
	}
	if err := file.Close(); err != nil { // on some file systems writing ends only now
		w.observer.SyncFailed(fmt.Errorf("close: %w", err))
	}
	w.observer.Opened(-1)
	w.changed.Broadcast()
}

// check fails with errEnded where a file must not be written to any more: it was moved away or removed, or somebody else wrote
// to it, who may be within a line. Its writing is locked. Where that can't be told now, it is asked again with the next write:
// there may just be too many files open.
func (w *Writer) check(file *openFile, now time.Time) error {
	if now.Sub(file.checked) >= everySecond {
		is, err := w.disk.Is(file.path, file.File)
		if err == nil && !is {
			w.end(file)
			return errEnded
		}
		if err == nil {
			file.checked = now
		}
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Unlinked || info.Size != file.size {
		w.end(file)
		return errEnded
	}
	return nil
}

// disown leaves a file to somebody else who wrote to it: it has no mark any more, which says that all of it is ours. Where that
// can't be taken off, or the name is our own, the path is not used again; else what is there tells by itself.
func (w *Writer) disown(file *openFile) {
	err := file.Mark(false) // it may not have one
	name, _ := layout.Parse(path.Base(file.path))
	if file.Marked() {
		w.avoid(file.path, errors.Join(errSomebodyElse, err))
	} else if name.Suffix != "" {
		w.avoid(file.path, errSomebodyElse)
	}
}

// mostAvoided is how many paths are remembered not to be used.
const mostAvoided = 1 << 10

// avoid sees to it that a path is not used again. Where there are too many, none is that was ever used.
func (w *Writer) avoid(path string, reason error) {
	w.avoided[path] = reason
	if len(w.avoided) > mostAvoided {
		w.suffixed, w.suffix = reason, layout.NewSuffix()
		clear(w.avoided)
	}
}

// removeEmpty removes a file that we have locked, if it is still there and nobody wrote to it.
func (w *Writer) removeEmpty(path string, file disk.File) error {
	info, err := file.Stat()
	if err != nil || info.Size > 0 {
		return err
	}
	if is, err := w.disk.Is(path, file); err != nil || !is {
		return err
	}
	return w.disk.Remove(path)
}
