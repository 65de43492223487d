// Package upkeep looks after files that nobody writes to any more: it cuts off torn lines, compresses, and removes the oldest.
// What it may touch is in exporter/rawoutputexporter/FORMAT.md.
//
// Each file is locked while it is worked on, so that a writer that wants it takes another name meanwhile, and two Collectors
// do not do the same work. Removing is on its own: it must not wait until a large file is compressed.
package upkeep // import "github.com/otel-rawoutput/rawoutput/internal/upkeep"

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/layout"
	"github.com/otel-rawoutput/rawoutput/internal/tail"
)

// Options say what becomes of closed files. The zero value leaves them as they are.
type Options struct {
	MaxAge   time.Duration // since the last change; 0 is for ever
	MaxBytes int64         // of all our files together; 0 is any number
	MinFree  int64         // bytes that writers leave free on the disk; files are removed before they have to
	Compress bool
}

// Removes reports whether files are ever removed.
func (o *Options) Removes() bool { return o.MaxAge > 0 || o.MaxBytes > 0 || o.MinFree > 0 }

// Observer is told what was done. It must be safe for concurrent use.
type Observer interface {
	// TornTail says that a torn line was cut off, which had so many bytes.
	TornTail(bytes int64)
	// Tidied says what a round removed and compressed; it is not called where that was nothing.
	Tidied(Round)
	// UpkeepFailed says what could not be done. It is tried again in the next round.
	UpkeepFailed(error)
}

// Round is what one round has done.
type Round struct {
	Removed, Compressed int   // files
	Freed               int64 // bytes
}

// Keeper looks after the files of one directory.
type Keeper struct {
	disk     disk.FS
	options  Options
	observer Observer

	later  []*entry      // files to look at again for a torn line
	unseen []string      // hours whose files could not be looked at for one
	short  chan struct{} // has something in it when there is too little free

	mu     sync.Mutex
	wanted int64 // guarded by mu: bytes that a writer had no room for

	stop    func()
	stopped sync.WaitGroup
}

// New returns a keeper for a directory, which need not exist yet.
func New(directory disk.FS, options Options, observer Observer) *Keeper {
	return &Keeper{disk: directory, options: options, observer: observer, short: make(chan struct{}, 1), stop: func() {}}
}

// interval lies between two rounds, where nothing is wanted sooner.
const interval = time.Minute

// Start begins to work, in the background. Close ends it.
func (k *Keeper) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	k.stopped.Go(func() { k.repairAndCompress(ctx) })
	if k.options.Removes() {
		k.stopped.Go(func() { k.retain(ctx) })
	}
}

// Close stops the work and waits until it has stopped. What was begun is given up: it leaves nothing behind that the next
// round would not put right.
func (k *Keeper) Close() {
	k.stop()
	k.stopped.Wait()
}

func (k *Keeper) repairAndCompress(ctx context.Context) {
	repaired := k.repairAll(ctx)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if k.options.Compress {
			k.tell(k.compressAll(ctx))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if repaired {
			k.repairLater(ctx)
		} else { // the directory was not there
			repaired = k.repairAll(ctx)
		}
	}
}

func (k *Keeper) retain(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		done, free := k.removeOldest(ctx)
		k.tell(done)
		k.settle(ctx, free, done.Freed)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-k.short:
		}
	}
}

func (k *Keeper) tell(done Round) {
	if done != (Round{}) {
		k.observer.Tidied(done)
	}
}

// entry is a file with one of our names.
type entry struct {
	disk.Info
	path string // below the directory
	hour string
	name layout.Name
}

// eachFile calls f with each file that has one of our names.
func (k *Keeper) eachFile(ctx context.Context, f func(*entry)) {
	k.eachHour(ctx, func(hour string) {
		k.note(ctx, k.eachFileOf(ctx, hour, f))
	})
}

func (k *Keeper) eachFileOf(ctx context.Context, hour string, f func(*entry)) error {
	return k.disk.Walk(hour, func(info disk.Info) error {
		if name, ok := layout.Parse(info.Name); ok && info.Mode.IsRegular() {
			f(&entry{info, path.Join(hour, info.Name), hour, name})
		}
		return context.Cause(ctx)
	})
}

// eachHour calls f with each hour. ok is false where there is no directory to look into.
func (k *Keeper) eachHour(ctx context.Context, f func(hour string)) (ok bool) {
	err := k.disk.Walk(".", func(info disk.Info) error {
		if _, ok := layout.ParseHour(info.Name); ok && info.Mode.IsDir() {
			f(info.Name)
		}
		return context.Cause(ctx)
	})
	k.note(ctx, err)
	return err == nil
}

// note reports an error that is worth it: not what comes of being stopped, and of what somebody removed meanwhile.
func (k *Keeper) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
		k.observer.UpkeepFailed(err)
	}
}

// noteOf reports what failed with a file, unless that says only that it is none of ours, or that somebody uses it.
func (k *Keeper) noteOf(ctx context.Context, e *entry, err error) {
	if !errors.Is(err, errBusy) && !isForeign(e.name, err) {
		k.note(ctx, err)
	}
}

// isForeign reports whether a file with the usual name can't be opened for the want of permission: those of the original hook
// may belong to another user.
func isForeign(name layout.Name, err error) bool {
	return name.Suffix == "" && errors.Is(err, fs.ErrPermission)
}

// errBusy says that a file is left alone for now.
var errBusy = errors.New("somebody uses the file")

// hold opens a file and locks it. It fails with errBusy where somebody else has it, or replaced it.
func (k *Keeper) hold(path string) (disk.File, error) {
	file, err := k.disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrNotRegular) {
		return nil, errBusy
	}
	if err != nil {
		return nil, err
	}
	if err := k.lock(path, file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (k *Keeper) lock(path string, file disk.File) error {
	if err := file.Lock(); errors.Is(err, disk.ErrLocked) {
		return errBusy
	}
	if is, err := k.disk.Is(path, file); err != nil || !is {
		return errors.Join(errBusy, err)
	}
	return nil
}

// isOurs reports whether this exporter made a file, in this life or an earlier one. The original hook gives neither suffix
// nor mark.
func isOurs(name layout.Name, file disk.File) bool { return name.Suffix != "" || file.Marked() }

// isClosed reports whether the last change of a file was in an hour of the clock that is over, and long enough ago for its
// writer to have closed it. Where locks tell who writes, they are asked too.
func isClosed(modified, now time.Time, locks bool) bool {
	unchanged := now.Sub(modified)
	if !locks {
		return unchanged >= surelyClosed
	}
	return unchanged >= tail.Quiet && modified.Before(now.Truncate(time.Hour))
}

// surelyClosed is longer than a writer has a file open that it does not write to.
const surelyClosed = 2 * time.Hour
