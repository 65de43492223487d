package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/tail"
)

const (
	// recent is how long ago a file was changed at the most that is looked at for a torn line.
	recent = 7 * 24 * time.Hour
	// mostLater is how many files are remembered to be looked at again.
	mostLater = 10_000
)

// repairAll cuts off the torn lines that processes left which were killed, where nobody can be writing.
func (k *Keeper) repairAll(ctx context.Context) (ok bool) {
	return k.eachFile(ctx, func(e *entry) {
		if !e.name.Compressed && time.Since(e.Modified) < recent {
			k.note(ctx, k.repairOrLater(e.path, e.hour))
		}
	})
}

// repairLater looks again at files that were in use.
func (k *Keeper) repairLater(ctx context.Context) {
	paths := k.later
	k.later = nil
	for _, path := range paths {
		if ctx.Err() == nil {
			k.note(ctx, k.repairOrLater(path, hourOf(path)))
		}
	}
}

func (k *Keeper) repairOrLater(path, hour string) error {
	if locks, err := k.disk.Locks(hour); err != nil || !locks {
		return err
	}
	torn, err := k.isTorn(path)
	if torn && err == nil {
		err = k.repairFree(path)
	}
	if errors.Is(err, errBusy) {
		if len(k.later) < mostLater {
			k.later = append(k.later, path)
		}
		return nil
	}
	return err
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
	if time.Since(info.Modified) < quiet {
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
	if time.Since(info.Modified) < quiet {
		return errBusy
	}
	if err := file.Truncate(whole); err != nil {
		return err
	}
	k.observer.TornTail(info.Size - whole)
	return k.disk.Touch(path, info.Modified)
}
