// Package hourly appends lines to the hourly files of a directory, <hour>/raw-<pid>.jsonl. It knows neither what a line means
// nor when to try again. What is on disk and who may write it is in exporter/rawoutputexporter/FORMAT.md.
//
// A call to Append writes its lines in one write or not at all: what a failed or short write left of them is cut off again,
// and where that fails too, the error says so (ErrUncertain). No buffer outlives the call.
//
// What the code is about is in one file each: writing (hourly.go), the files that are open (borrow.go), opening and making one
// (open.go), making what was written safe (sync.go), and what is done in the background (background.go).
package hourly // import "github.com/otel-rawoutput/rawoutput/internal/hourly"

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/layout"
)

// Permissions of what is made, whatever the umask. What exists keeps its own.
type Permissions struct{ File, Directory fs.FileMode }

// Options are those of a Writer.
type Options struct {
	Permissions Permissions
	MaxOpen     int // files open at the most
	Sync        SyncPolicy
	Interval    time.Duration // between syncs, with SyncInterval
	MinFree     int64         // bytes that are left free on the disk
	// Recognizable says that each file must be told from those of others later: by a mark, or by a suffix in its name.
	Recognizable bool
}

// Observer is told what happens to the files. It must be safe for concurrent use, and must not call the Writer.
type Observer interface {
	// Opened counts files that were opened, and with -1 one that was closed.
	Opened(n int)
	// Wrote and Synced say how long that took.
	Wrote(time.Duration)
	Synced(time.Duration)
	// SyncFailed says that what was written may not be safe.
	SyncFailed(error)
	// TookSuffix says that a file was opened whose name has a suffix, and why.
	TookSuffix(path string, reason error)
	// RolledBack says that what a failed write left was cut off.
	RolledBack()
	// TornTail says that a torn line was cut off, which had so many bytes.
	TornTail(bytes int64)
	// Free says how many bytes can still be written.
	Free(bytes int64)
	// Refused says that so many bytes were not written, so that MinFree stays free.
	Refused(bytes int64)
}

// Key names the file that lines go to: their hour (2026-11-04T05), and the process that its name speaks of.
type Key struct {
	Hour string
	PID  int
}

// Writer appends to the files of one directory. It is safe for concurrent use: who writes to a file, or waits for it to be
// synced, holds up those only who write to the same file.
type Writer struct {
	disk     disk.FS
	options  Options
	observer Observer
	pid      int       // of this process
	began    time.Time // this life

	mu       sync.Mutex // guards what is below; files are opened and closed under it, but neither written nor synced
	changed  *sync.Cond // signals that a file was given back or closed, that paths are being synced, or the writer was closed
	closed   bool
	open     map[Key]*openFile
	suffix   string           // in the names of files where the usual name can't be had
	suffixed error            // why the usual names are not used any more, if they are not
	avoided  map[string]error // paths that are not used any more, and why
	unsynced map[string]kind  // what is not open, to be synced by its path
	free     int64            // bytes that can still be written, as of measured
	measured time.Time

	hurry   chan struct{} // asks for a sync before the interval is over
	stop    func()
	stopped sync.WaitGroup
}

// openFile is a file that is open, and locked where locks are kept. Its locks are taken in this order: syncing, writing, that
// of the Writer. Who is among its users need not fear that it is closed.
type openFile struct {
	disk.File
	key  Key
	path string
	made bool // by us, in this life

	// Guarded by Writer.mu.
	users   int
	used    time.Time // last
	retired bool      // nobody gets it any more, and the last user closes it

	writing sync.Mutex // guards what is below, and every write
	size    int64      // as we left it
	checked time.Time  // when the path was last seen to be its name
	dirty   bool       // there may be something that is not safe, with SyncInterval
	ended   bool       // nothing is appended to it any more

	syncing sync.Mutex // guards what is below, and every sync, with SyncAlways
	safe    int64      // how much of it was acknowledged
	above   []string   // directories that are to be synced for its name to be safe
	lost    error      // why what was behind safe is not there any more
}

// NewWriter returns a writer for a directory, which need not exist yet.
func NewWriter(directory disk.FS, options Options, observer Observer) *Writer {
	w := &Writer{
		disk:     directory,
		options:  options,
		observer: observer,
		pid:      os.Getpid(),
		began:    time.Now(),
		open:     map[Key]*openFile{},
		suffix:   layout.NewSuffix(),
		avoided:  map[string]error{},
		unsynced: map[string]kind{},
		hurry:    make(chan struct{}, 1),
		stop:     func() {},
	}
	w.changed = sync.NewCond(&w.mu)
	return w
}

// Prepare makes the directory and checks that a file can be made in it.
func (w *Writer) Prepare() error {
	if err := w.disk.MakeAll(w.options.Permissions.Directory); err != nil {
		return err
	}
	if err := disk.Probe(w.disk); err != nil {
		return err
	}
	free, err := w.disk.Free()
	if err == nil {
		w.observer.Free(free)
	} else if w.options.MinFree > 0 {
		return fmt.Errorf("how many bytes are free can't be told: %w", err)
	}
	return nil
}

// What an Append may fail with beside what the system says.
var (
	// ErrUncertain says that some of the lines may be in the file: what a failed write left of them could not be cut off. To
	// append them again might double them.
	ErrUncertain = errors.New("perhaps written in part")
	// ErrReserved says that no more bytes are free on the disk than are to stay free.
	ErrReserved = errors.New("the disk is nearly full")
	// ErrClosed says that the writer was closed.
	ErrClosed = errors.New("the writer was closed")
)

// Append appends whole lines to a file, in one write. It returns when they are in the page cache, or on the disk with
// SyncAlways.
func (w *Writer) Append(key Key, lines []byte) error {
	if err := w.reserve(int64(len(lines))); err != nil {
		return err
	}
	for {
		file, err := w.borrow(key)
		if err != nil {
			return err
		}
		err = w.appendTo(file, lines)
		w.giveBack(file)
		if !errors.Is(err, errEnded) { // else another one is opened
			return err
		}
	}
}

// errEnded says that nothing is appended to an open file any more.
var errEnded = errors.New("the file is not used any more")

func (w *Writer) appendTo(file *openFile, lines []byte) error {
	end, err := w.write(file, lines)
	if err != nil || w.options.Sync != SyncAlways {
		return err
	}
	return w.commit(file, end)
}

// write writes the lines, or leaves the file as it was. It returns where they end.
func (w *Writer) write(file *openFile, lines []byte) (end int64, err error) {
	file.writing.Lock()
	defer file.writing.Unlock()
	if file.ended {
		return 0, errEnded
	}
	began := time.Now()
	if err := w.check(file, began); err != nil {
		return 0, err
	}
	written, err := file.Write(lines)
	w.observer.Wrote(time.Since(began))
	if err != nil {
		return 0, w.cutBack(file, int64(written), err)
	}
	file.size += int64(written)
	file.dirty = true
	return file.size, nil
}

// cutBack cuts off what a write left behind the end of the file that failed with cause after so many bytes. If the file has
// another size than that makes, somebody else wrote to it at the same time, and it is not cut.
func (w *Writer) cutBack(file *openFile, written int64, cause error) error {
	if written == 0 {
		return cause
	}
	info, err := file.Stat()
	if err == nil && info.Size != file.size+written {
		err = errSomebodyElse
	}
	if err == nil {
		err = file.Truncate(file.size)
	}
	if err != nil {
		file.size += written
		w.end(file)
		return fmt.Errorf("%w: %w, and then %w", ErrUncertain, cause, err)
	}
	w.observer.RolledBack()
	return cause
}

// reserve fails where the bytes would use up what is to stay free.
func (w *Writer) reserve(bytes int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	usesUp := func() bool { return w.options.MinFree > 0 && w.free-bytes < w.options.MinFree }
	if now.Sub(w.measured) >= everySecond || usesUp() {
		w.measure(now)
	}
	if usesUp() {
		w.observer.Refused(bytes)
		return fmt.Errorf("%w: %d bytes are free, and %d are to stay free", ErrReserved, w.free, w.options.MinFree)
	}
	w.free -= bytes
	return nil
}

// everySecond is how often is looked at what somebody else may change: the free bytes, and the names of files.
const everySecond = time.Second

// measure asks for the free bytes. Where that fails, as it does where the directory is gone, writing will tell why.
func (w *Writer) measure(now time.Time) {
	free, err := w.disk.Free()
	if err != nil {
		w.free = math.MaxInt64
		return
	}
	w.free, w.measured = free, now
	w.observer.Free(free)
}
