package upkeep

import (
	"context"
	"errors"
	"io"
	"math"
	"time"
)

// mostSpare bounds spare.
const mostSpare = 1 << 30

// spare is how many bytes are made free beyond those that stay free: else there would be nothing to write into.
func (k *Keeper) spare() int64 { return min(k.options.MinFree/10, mostSpare) }

// Free tells how many bytes are free. Where that is little, files are removed soon, before writers have to stop.
func (k *Keeper) Free(bytes int64) {
	if k.isLittle(bytes) {
		k.removeSoon()
	}
}

func (k *Keeper) isLittle(free int64) bool { return free < k.options.MinFree+k.spare()/2 }

// MakeRoom tells that there was no room for so many bytes. It does not wait for it.
func (k *Keeper) MakeRoom(bytes int64) {
	k.mu.Lock()
	k.wanted = max(k.wanted, bytes)
	k.mu.Unlock()
	k.removeSoon()
}

func (k *Keeper) removeSoon() {
	select {
	case k.short <- struct{}{}:
	default: // it is known
	}
}

// missing returns how many bytes are to be removed for there to be enough free. Nothing is removed for what would not fit
// even if all went that can be removed.
func (k *Keeper) missing(free, removable int64) int64 {
	wanted := k.takeWanted()
	if k.options.MinFree == 0 {
		return 0
	}
	missing := k.options.MinFree - free + k.spare()
	if missing+wanted <= removable {
		missing += wanted
	}
	return missing
}

func (k *Keeper) takeWanted() (bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	bytes, k.wanted = k.wanted, 0
	return bytes
}

// free is how many bytes are free; where that can't be told there are enough.
func (k *Keeper) free() int64 {
	free, err := k.disk.Free()
	if err != nil {
		return math.MaxInt64
	}
	return free
}

const (
	// settling is how long it takes until what was removed is free, on most file systems.
	settling = 100 * time.Millisecond
	// mostSettling is how many times that long is waited at the most. Btrfs and ZFS give it back with their next commit.
	mostSettling = 300
)

// settle waits until what a round removed is free: another one before would remove more than it must. Where it found nothing to
// remove, though there was little free, it waits as long: there will be nothing so soon.
func (k *Keeper) settle(ctx context.Context, before, removed int64) {
	for range mostSettling {
		free := k.free()
		hasRisen := removed > 0 && free-before >= removed/2 // writers go on meanwhile
		if hasRisen || !k.isLittle(free) || !k.isLittle(before) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settling):
		}
	}
}

// errNoRoom says that a file can't be compressed for now.
var errNoRoom = errors.New("there are too few free bytes to compress a file")

// mayTake reports whether a copy may take so many bytes: writers must not be refused anything because of it.
func (k *Keeper) mayTake(bytes int64) bool {
	return k.free()-bytes >= k.options.MinFree+k.spare()/4
}

// mayFit reports whether it is worth while to compress a file of so many bytes.
func (k *Keeper) mayFit(bytes int64) bool {
	if k.options.MinFree > 0 { // if it does not fit after all, that does no harm
		bytes /= 8 // lines of text become smaller than that
	}
	return k.mayTake(bytes)
}

// sparing writes as long as that may take bytes.
type sparing struct {
	io.Writer
	keeper *Keeper
}

func (s sparing) Write(p []byte) (int, error) {
	if !s.keeper.mayTake(int64(len(p))) {
		return 0, errNoRoom
	}
	return s.Writer.Write(p)
}
