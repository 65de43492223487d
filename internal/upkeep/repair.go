package upkeep

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/tail"
)

const (
	// recent is how long ago a file was changed at the most that is looked at for a torn line.
	recent = 7 * 24 * time.Hour
	// mostLater is how many files and hours are remembered to be looked at again.
	mostLater = 10_000
)

// repairAll cuts off the torn lines that processes left which were killed, where nobody can be writing. ok is false where there
// is no directory to look into.
func (k *Keeper) repairAll(ctx context.Context) (ok bool) {
	return k.eachHour(ctx, func(hour string) { k.repairHour(ctx, hour) })
}

func (k *Keeper) repairHour(ctx context.Context, hour string) {
	err := k.eachFileOf(ctx, hour, func(e *entry) {
		if !e.name.Compressed && time.Since(e.Modified) < recent {
			k.repairOrLater(ctx, e)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) && len(k.unseen) < mostLater {
		k.unseen = append(k.unseen, hour)
	}
	k.note(ctx, err)
}

// repairLater looks again at what was in use, or could not be looked at.
func (k *Keeper) repairLater(ctx context.Context) {
	hours, files := k.unseen, k.later
	k.unseen, k.later = nil, nil
	for _, e := range files {
		if ctx.Err() == nil {
			k.repairOrLater(ctx, e)
		}
	}
	for _, hour := range hours {
		if ctx.Err() == nil {
			k.repairHour(ctx, hour)
		}
	}
}

func (k *Keeper) repairOrLater(ctx context.Context, e *entry) {
	err := k.repairIfTorn(e)
	if err == nil || errors.Is(err, fs.ErrNotExist) || isForeign(e.name, err) {
		return
	}
	if len(k.later) < mostLater {
		k.later = append(k.later, e)
	}
	k.noteOf(ctx, e, err)
}

func (k *Keeper) repairIfTorn(e *entry) error {
	if locks, err := k.disk.Locks(e.hour); err != nil || !locks {
		return err
	}
	if torn, err := k.isTorn(e.path); err != nil || !torn {
		return err
	}
	return k.repairFree(e.path)
}

// isTorn reports whether a file ends within a line, or fails with errBusy where it changed lately. It is not locked to see
// that: else a writer that opens it just then would have to take another name.
func (k *Keeper) isTorn(path string) (torn bool, err error) {
	file, err := k.disk.Open(path)
	if errors.Is(err, disk.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if time.Since(info.Modified) < tail.Quiet {
		return false, errBusy
	}
	whole, err := tail.Whole(file, info.Size)
	return whole < info.Size, err
}

// repairFree repairs a file if nobody has it locked.
func (k *Keeper) repairFree(path string) error {
	file, err := k.hold(path)
	if err != nil {
		return err
	}
	return errors.Join(k.repair(path, file), file.Close())
}

// repair cuts off a torn line at the end of a file that is locked and has not changed lately. The file is as old as before.
func (k *Keeper) repair(path string, file disk.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	whole, err := tail.Whole(file, info.Size)
	if err != nil || whole == info.Size {
		return err
	}
	if time.Since(info.Modified) < tail.Quiet {
		return errBusy
	}
	if err := file.Truncate(whole); err != nil {
		return err
	}
	k.observer.TornTail(info.Size - whole)
	return k.disk.Touch(path, info.Modified)
}
