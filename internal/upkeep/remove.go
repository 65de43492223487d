package upkeep

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
)

// mostCandidates is how many files are removed in one round at the most: there may be millions.
const mostCandidates = 10_000

// removeOldest removes closed files of ours, the oldest first, until the limits are kept. It returns how many bytes were free
// before.
func (k *Keeper) removeOldest(ctx context.Context) (done Round, free int64) {
	all := k.survey(ctx)
	free = k.free()
	excess := k.excessOf(all, free)
	for _, e := range all.oldest {
		if ctx.Err() != nil || !excess.has(e) {
			break
		}
		if err := k.remove(e); err != nil {
			k.noteOf(ctx, e, err)
			continue
		}
		excess.take(e)
		done.Removed++
		done.Freed += e.Size
	}
	return done, free
}

// excess is what is left to remove in a round.
type excess struct {
	bytes   int64     // whatever their age
	files   int       // at the most, if they are no more than too old
	expired time.Time // what was last changed before is too old
}

// excessOf goes by the bytes that are removed, not by those that are free then: some file systems give them back later.
func (k *Keeper) excessOf(all survey, free int64) (x excess) {
	x.bytes = k.missing(free, all.removable)
	if k.options.MaxBytes > 0 {
		x.bytes = max(x.bytes, all.bytes-k.options.MaxBytes)
	}
	if k.options.MaxAge > 0 {
		x.expired, x.files = time.Now().Add(-k.options.MaxAge), mostExpired(all.files)
	}
	return x
}

// mostExpired is how many of so many files a round removes for their age: a clock that is wrong for a minute, as it may be after
// a boot, must not cost all.
func mostExpired(files int) int { return 10 + files/10 }

func (x *excess) has(e *entry) bool {
	return x.bytes > 0 || x.files > 0 && e.Modified.Before(x.expired)
}

func (x *excess) take(e *entry) {
	x.bytes -= e.Size
	x.files--
}

// survey is what there is of our files.
type survey struct {
	files     int
	bytes     int64
	oldest    []*entry // of the closed ones, in order
	removable int64    // the bytes of these
}

func (k *Keeper) survey(ctx context.Context) (all survey) {
	now := time.Now()
	var newestFirst entries
	locks := k.locksByHour()
	k.eachFile(ctx, func(e *entry) {
		ours, err := k.ours(e)
		if err != nil || !ours {
			k.noteOf(ctx, e, err)
			return
		}
		all.files++
		all.bytes += e.Size
		if !isClosed(e.Modified, now, locks(e.hour)) {
			return
		}
		heap.Push(&newestFirst, e)
		if len(newestFirst) > mostCandidates {
			heap.Pop(&newestFirst)
		}
	})
	all.oldest = make([]*entry, len(newestFirst))
	for i := range all.oldest {
		e := heap.Pop(&newestFirst).(*entry)
		all.oldest[len(all.oldest)-1-i] = e
		all.removable += e.Size
	}
	return all
}

// locksByHour returns what tells whether locks can be relied on in an hour. It asks once for files that follow each other.
func (k *Keeper) locksByHour() func(hour string) bool {
	var last string
	var locks bool
	return func(hour string) bool {
		if hour != last {
			kept, err := k.disk.Locks(hour)
			last, locks = hour, err == nil && kept
		}
		return locks
	}
}

func (k *Keeper) ours(e *entry) (bool, error) {
	if e.name.Suffix != "" {
		return true, nil
	}
	file, err := k.disk.Open(e.path)
	if errors.Is(err, disk.ErrNotRegular) { // it was replaced meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return isOurs(e.name, file), file.Close()
}

// remove removes a file of ours, and its hour if that is empty then.
func (k *Keeper) remove(e *entry) error {
	file, err := k.hold(e.path)
	if err != nil {
		return err
	}
	if err = errors.Join(k.removeHeld(e, file), file.Close()); err != nil {
		return err
	}
	_ = k.disk.Remove(e.hour) // it fails where there is more in it
	return nil
}

// removeHeld removes the file unless it was written to since it was found to be old, or somebody else wrote to it.
func (k *Keeper) removeHeld(e *entry, file disk.File) error {
	if err := unchanged(file, e.Info); err != nil {
		return err
	}
	if !isOurs(e.name, file) {
		return errBusy
	}
	return k.disk.Remove(e.path)
}

// entries is a heap with the newest file on top.
type entries []*entry

func (e entries) Len() int           { return len(e) }
func (e entries) Less(i, j int) bool { return e[i].Modified.After(e[j].Modified) }
func (e entries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)        { *e = append(*e, x.(*entry)) }
func (e *entries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return x
}
