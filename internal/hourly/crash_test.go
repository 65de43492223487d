package hourly

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

// TestPowerCut cuts the power at a random time, for many seeds. Whatever part of what was not synced survives, nothing that had
// to be safe is lost, and the next start leaves no line broken.
func TestPowerCut(t *testing.T) {
	for name, policy := range map[string]SyncPolicy{"interval": SyncInterval, "always": SyncAlways} {
		for seed := range uint64(50) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cutPower(t, policy, rand.New(rand.NewPCG(seed, 1))) })
			})
		}
	}
}

func cutPower(t *testing.T, policy SyncPolicy, random *rand.Rand) {
	o := usually()
	o.Sync, o.MaxOpen = policy, 1+random.IntN(3)
	f := on(disktest.New(), o)
	f.Start()
	acknowledged := map[string]time.Time{} // of each piece
	keys := []Key{theKey, laterKey, {"2026-11-04T07", pid}, {hour, 1}}
	for i := range 1 + random.IntN(100) {
		piece := fmt.Sprintf("piece %d\nsecond line of %d\n", i, i)
		f.append(t, keys[random.IntN(len(keys))], piece)
		acknowledged[piece] = time.Now()
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		synctest.Wait()
	}
	cutAt := time.Now()
	after := f.disk.CutPower(func(bytes int) int { return random.IntN(bytes + 1) })
	f.Close()

	time.Sleep(2 * time.Minute)
	next := on(after, o)
	for _, key := range keys {
		next.append(t, key, "the end\n")
	}
	next.Close()
	all := contentOfAll(after)
	for piece, at := range acknowledged {
		if policy == SyncAlways || cutAt.Sub(at) > o.Interval {
			require.Equal(t, 1, strings.Count(all, "\n"+piece), "%q in %q", piece, all)
		}
	}
	for line := range strings.Lines(all) {
		assert.Regexp(t, `^(piece \d+|second line of \d+|the end)?\n$`, line)
	}
}
