package hourly

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/layout"
)

// SyncPolicy says when what was written is made safe from a power cut.
type SyncPolicy int

// The policies.
const (
	SyncInterval SyncPolicy = iota // once an interval, in the background
	SyncNever                      // when the system does it
	SyncAlways                     // before Append returns
)

// kind is what a path that is to be synced names.
type kind bool

const (
	aFile      kind = false
	aDirectory kind = true
)

func directoryOf(file string) string { return path.Dir(file) }

const (
	// mostUnsynced is how many paths may wait to be synced: some MB. A batch may name any number of hours.
	mostUnsynced = 1 << 16
	// syncsAtOnce is how many paths are synced at the same time: a file system commits those together.
	syncsAtOnce = 8
)

// noteUnsynced notes that something is to be synced by its path.
func (w *Writer) noteUnsynced(path string, k kind) {
	if w.options.Sync == SyncNever {
		return
	}
	w.unsynced[path] = k
	if len(w.unsynced) >= mostUnsynced {
		failed, _ := w.syncPaths(w.takeUnsynced()) // it was told to the observer
		w.settlePaths(failed)
	}
}

func (w *Writer) takeUnsynced() map[string]kind {
	paths := w.unsynced
	w.unsynced = map[string]kind{}
	return paths
}

// written notes that lines were appended to a file, and with SyncAlways makes them safe. Where that fails they are cut off
// again: Append has not written them.
func (w *Writer) written(key Key, file *openFile, bytes int64) error {
	before := file.size
	file.size += bytes
	file.dirty = true
	if w.options.Sync != SyncAlways {
		return nil
	}
	errFile := w.syncFile(file)
	failed, errPaths := w.syncPaths(w.takeUnsynced())
	w.settlePaths(failed)
	err := errors.Join(errFile, errPaths)
	if err == nil {
		file.dirty = false
		return nil
	}
	file.size = before
	err = w.cutBack(file, int(bytes), err)
	switch {
	case errFile != nil:
		w.abandon(key, file)
	case errors.Is(err, ErrUncertain):
		w.close(key)
	}
	return err
}

// syncFile syncs a file. It needs no lock.
func (w *Writer) syncFile(file interface{ Sync() error }) error {
	began := time.Now()
	if err := file.Sync(); err != nil {
		if errors.Is(err, fs.ErrClosed) { // its path is noted, or was synced
			return nil
		}
		w.observer.SyncFailed(err)
		return err
	}
	w.observer.Synced(time.Since(began))
	return nil
}

// syncPaths syncs what has these paths, as far as it is still there, and returns what could not be. It needs no lock.
func (w *Writer) syncPaths(paths map[string]kind) (failed map[string]kind, err error) {
	var mu sync.Mutex // guards the results
	failed = map[string]kind{}
	var all sync.WaitGroup
	free := make(chan struct{}, syncsAtOnce)
	for path, k := range paths {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if errPath := w.syncPath(path, k); errPath != nil && !errors.Is(errPath, fs.ErrNotExist) {
				mu.Lock()
				defer mu.Unlock()
				failed[path], err = k, errPath
			}
		})
	}
	all.Wait()
	return failed, err
}

// settlePaths sees to what could not be synced. A directory is synced again: there can't be another one in its place.
func (w *Writer) settlePaths(failed map[string]kind) {
	for path, k := range failed {
		if k == aDirectory {
			w.unsynced[path] = k
		} else {
			w.leaveNames()
		}
	}
}

func (w *Writer) syncPath(path string, k kind) error {
	if k == aDirectory {
		err := w.disk.SyncDirectory(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.observer.SyncFailed(err)
		}
		return err
	}
	file, err := w.disk.Open(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.observer.SyncFailed(err)
		}
		return err
	}
	return errors.Join(w.syncFile(file), file.Close())
}

// abandon leaves a file that could not be synced: the system may have forgotten what was not safe, and says so only once. So
// it is neither synced nor written to again, and names that might be its own are not used any more.
func (w *Writer) abandon(key Key, file *openFile) {
	w.leaveNames()
	file.dirty = false
	if w.open[key] == file {
		w.close(key)
	}
	if file.size == 0 { // nothing of it was acknowledged: it need not stay
		_ = w.disk.Remove(file.path)
	}
}

// leaveNames sees to it that no file that is there is opened again.
func (w *Writer) leaveNames() { w.suffixed, w.suffix = true, layout.NewSuffix() }

// syncAll makes safe what is not, without holding up writers meanwhile.
func (w *Writer) syncAll() {
	w.mu.Lock()
	dirty := map[Key]*openFile{}
	sizes := map[Key]int64{}
	for key, file := range w.open {
		if file.dirty {
			dirty[key], sizes[key] = file, file.size
		}
	}
	paths := w.takeUnsynced()
	w.mu.Unlock()

	for key, file := range dirty {
		w.settle(key, file, sizes[key], w.syncFile(file))
	}
	failed, _ := w.syncPaths(paths)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settlePaths(failed)
}

// settle notes that a file was synced when it had that size, or was not.
func (w *Writer) settle(key Key, file *openFile, size int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.abandon(key, file)
		return
	}
	if file.size == size {
		file.dirty = false
	}
}

// close closes an open file. What is not safe is noted.
func (w *Writer) close(key Key) {
	file := w.open[key]
	delete(w.open, key)
	if file.dirty && w.options.Sync == SyncInterval {
		w.noteUnsynced(file.path, aFile)
	}
	if err := file.Close(); err != nil { // on some file systems writing ends only now
		w.observer.SyncFailed(fmt.Errorf("close: %w", err))
	}
	w.observer.Opened(-1)
}
