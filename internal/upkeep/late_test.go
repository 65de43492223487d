package upkeep

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
	"github.com/otel-rawoutput/rawoutput/internal/hourly"
)

// TestLateRecordAfterAFailedCompression lets each call of a compression fail, or kills the process there, and then a late record
// of that hour comes: it is written, and whatever is compressed in the end has each line once.
func TestLateRecordAfterAFailedCompression(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for n := 1; lateRecordAfter(t, n, killed); n++ {
		}
	}
}

// lateRecordAfter lets the nth call fail, and all after it where the process is killed. It reports whether there was one.
func lateRecordAfter(t *testing.T, n int, killed bool) (failed bool) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, "acknowledged\n", longAgo)
		failed = compressFailing(d, n, killed, nil)

		w := work(t, d.Process(), Options{Compress: true})
		require.NoError(t, w.Append(hourly.Key{Hour: hour, PID: 1}, []byte("late\n")), "call %d", n)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"acknowledged", "late"}, compressedLines(t, d), "call %d", n)
	})
	return failed
}

// compressedLines are those of all files, which must be compressed.
func compressedLines(t *testing.T, d *disktest.Disk) (lines []string) {
	for _, path := range d.Files() {
		require.True(t, strings.HasSuffix(path, ".zst"), path)
		lines = append(lines, strings.Split(strings.TrimSuffix(plain(t, d, path), "\n"), "\n")...)
	}
	return lines
}

// compressFailing compresses in a process whose nth call fails, and all after it where the process is killed. written says how much
// of what it was given a failed write has written; nil is nothing. It reports whether there was an nth call.
func compressFailing(d *disktest.Disk, n int, killed bool, written func(int) int) (failed bool) {
	calls := 0
	d.SetFault(func(disktest.Call, string) (func(int) int, error) {
		if calls++; calls == n || killed && calls > n {
			return written, disktest.ErrFault
		}
		return nil, nil
	})
	p := d.Process()
	k := New(p, Options{Compress: true}, &spy{})
	k.Start()
	synctest.Wait()
	failed = calls >= n
	p.Kill()
	d.SetFault(nil)
	k.Close()
	return failed
}
