package upkeep

import (
	"container/heap"
	"context"
	"errors"
	"path"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
)

func hourOf(file string) string { return path.Dir(file) }

// mostCandidates is how many files are removed in one round at the most: there may be millions.
const mostCandidates = 10_000

// removeOldest removes closed files of ours, the oldest first, until the limits are kept.
func (k *Keeper) removeOldest(ctx context.Context, done *Round) {
	oldest, total := k.oldest(ctx)
	for _, e := range oldest {
		if ctx.Err() != nil || !k.isTooMuch(e, total) {
			return
		}
		err := k.remove(e)
		if errors.Is(err, errBusy) {
			continue
		}
		if err != nil {
			k.note(ctx, err)
			continue
		}
		total -= e.Size
		done.Removed++
		done.Freed += e.Size
	}
}

// isTooMuch reports whether the file must go, which is the oldest of those that take up so many bytes.
func (k *Keeper) isTooMuch(e *entry, total int64) bool {
	o := &k.options
	if o.MaxAge > 0 && time.Since(e.Modified) > o.MaxAge || o.MaxBytes > 0 && total > o.MaxBytes {
		return true
	}
	if o.MinFree == 0 {
		return false
	}
	free, err := k.disk.Free()
	return err == nil && free < o.MinFree
}

// oldest returns the oldest closed files of ours, in order, and how many bytes all of ours take up.
func (k *Keeper) oldest(ctx context.Context) (files []*entry, total int64) {
	now := time.Now()
	var newestFirst entries
	locks := k.locksByHour()
	k.eachFile(ctx, func(e *entry) {
		ours, err := k.ours(e)
		if err != nil || !ours {
			k.note(ctx, err)
			return
		}
		total += e.Size
		if !isClosed(e.Modified, now, locks(e.hour)) {
			return
		}
		heap.Push(&newestFirst, e)
		if len(newestFirst) > mostCandidates {
			heap.Pop(&newestFirst)
		}
	})
	files = make([]*entry, len(newestFirst))
	for i := range files {
		files[len(files)-1-i] = heap.Pop(&newestFirst).(*entry)
	}
	return files, total
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
