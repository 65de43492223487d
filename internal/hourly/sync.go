package hourly

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
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
type kind int

const (
	aFile kind = iota
	aDirectory
)

const (
	// mostUnsynced is about how many paths may wait to be synced: some MB. A batch may name any number of hours.
	mostUnsynced = 1 << 14
	// syncsAtOnce is how many paths are synced at the same time: a file system commits those together.
	syncsAtOnce = 8
)

// noteNames notes what makes the name of a file safe that was opened, whoever made it: he may have been killed before he did
// that.
func (w *Writer) noteNames(file *openFile) {
	if w.options.Sync == SyncAlways {
		file.above = []string{path.Dir(file.path), "."}
		return
	}
	w.noteUnsynced(path.Dir(file.path), aDirectory)
	w.noteUnsynced(".", aDirectory)
	delete(w.unsynced, file.path) // it is open
}

// noteUnsynced notes that something is to be synced by its path, in the background.
func (w *Writer) noteUnsynced(path string, k kind) {
	if w.options.Sync == SyncInterval {
		w.unsynced[path] = k
	}
}

// syncSoon has the background sync before the interval is over.
func (w *Writer) syncSoon() {
	select {
	case w.hurry <- struct{}{}:
	default: // it was asked already
	}
}

// commit makes safe what was appended to a file up to end, or cuts it off again: then Append has not written it. Those who wait
// here meanwhile share the next sync.
func (w *Writer) commit(file *openFile, end int64) error {
	file.syncing.Lock()
	defer file.syncing.Unlock()
	switch {
	case end <= file.safe:
		return nil
	case file.lost != nil:
		return file.lost
	}
	size, _ := file.state()
	err := w.syncFile(file)
	if err != nil {
		w.abandon(file)
	} else {
		err = w.syncAbove(file)
	}
	if err != nil {
		file.lost = w.cutBackToSafe(file, err)
		return file.lost
	}
	file.safe = size
	return nil
}

// syncAbove makes the name of a file safe, once.
func (w *Writer) syncAbove(file *openFile) error {
	for _, directory := range file.above {
		if err := w.syncPath(directory, aDirectory); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	file.above = nil
	return nil
}

// cutBackToSafe cuts off what could not be made safe. The file is not used any more: there are some who wait for a sync of it.
func (w *Writer) cutBackToSafe(file *openFile, cause error) error {
	file.writing.Lock()
	defer file.writing.Unlock()
	w.end(file)
	behind := file.size - file.safe
	file.size = file.safe
	return w.cutBack(file, behind, cause)
}

// syncFile syncs a file.
func (w *Writer) syncFile(file interface{ Sync() error }) error {
	began := time.Now()
	err := file.Sync()
	w.observer.Synced(time.Since(began))
	if err != nil {
		w.observer.SyncFailed(err)
	}
	return err
}

// abandon leaves a file that could not be synced: the system may have forgotten what was not safe, and says so only once. So
// it is neither synced nor written to again.
func (w *Writer) abandon(file *openFile) {
	file.writing.Lock()
	defer file.writing.Unlock()
	file.dirty = false
	w.end(file)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.avoid(file.path, errSyncFailed)
}

// syncAll makes safe what is not, without holding up writers meanwhile.
func (w *Writer) syncAll() {
	for _, file := range w.openFiles() {
		w.syncOpen(file)
	}
	paths := w.takeUnsynced()
	w.settlePaths(w.syncPaths(paths))
}

func (w *Writer) openFiles() []*openFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.open))
}

// syncOpen syncs a file that is open, where that is needed. If it was closed meanwhile its path is noted.
func (w *Writer) syncOpen(file *openFile) {
	if !w.hold(file) {
		return
	}
	defer w.giveBack(file)
	size, dirty := file.state()
	if !dirty {
		return
	}
	if err := w.syncFile(file); err != nil {
		w.abandon(file)
		return
	}
	file.synced(size)
}

// hold becomes a user of a file, if it is still open.
func (w *Writer) hold(file *openFile) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[file.key] != file {
		return false
	}
	file.users++
	return true
}

func (f *openFile) state() (size int64, dirty bool) {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.size, f.dirty
}

// synced notes that a file was synced when it had that size.
func (f *openFile) synced(size int64) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.dirty = f.size != size
}

// takeUnsynced returns what is to be synced by its path. There is room for more then.
func (w *Writer) takeUnsynced() map[string]kind {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths := w.unsynced
	w.unsynced = map[string]kind{}
	w.changed.Broadcast()
	return paths
}

// result is what became of a path that was to be synced.
type result struct {
	path string
	kind kind
	err  error
}

// syncPaths syncs what has these paths, as far as it is still there, and returns what could not be.
func (w *Writer) syncPaths(paths map[string]kind) (failed []result) {
	var mu sync.Mutex // guards the results
	var all sync.WaitGroup
	free := make(chan struct{}, syncsAtOnce)
	for path, k := range paths {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if err := w.syncPath(path, k); err != nil && !errors.Is(err, fs.ErrNotExist) {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, result{path, k, err})
			}
		})
	}
	all.Wait()
	return failed
}

// settlePaths sees to what could not be synced. A file whose sync failed is left. All else is synced again: a directory, as
// there can't be another one in its place, and a file that could not be opened, perhaps as too many are open. It may take no
// more than half of the room.
func (w *Writer) settlePaths(failed []result) {
	for _, f := range failed {
		if errors.Is(f.err, errSyncFailed) {
			w.abandonPath(f.path)
			continue
		}
		w.mu.Lock()
		if len(w.unsynced) < mostUnsynced/2 {
			w.noteUnsynced(f.path, f.kind)
		}
		w.mu.Unlock()
	}
}

// abandonPath leaves a file that could not be synced, also if it was opened again meanwhile.
func (w *Writer) abandonPath(path string) {
	w.mu.Lock()
	w.avoid(path, errSyncFailed)
	w.mu.Unlock()
	for _, file := range w.openFiles() {
		if file.path == path && w.hold(file) {
			w.abandon(file)
			w.giveBack(file)
		}
	}
}

// syncPath fails with errSyncFailed where a file was opened, but could not be synced.
func (w *Writer) syncPath(path string, k kind) error {
	if k == aDirectory {
		return w.reported(w.disk.SyncDirectory(path))
	}
	file, err := w.disk.Open(path)
	if errors.Is(err, disk.ErrNotRegular) { // it was moved away
		return nil
	}
	if err != nil {
		return w.reported(err)
	}
	if err = w.syncFile(file); err != nil {
		err = errors.Join(errSyncFailed, err)
	}
	return errors.Join(err, file.Close())
}

// reported tells the observer of an error, unless there is nothing that could be lost.
func (w *Writer) reported(err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.observer.SyncFailed(err)
	}
	return err
}
