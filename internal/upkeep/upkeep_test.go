package upkeep

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spy remembers what it is told.
type spy struct {
	mu     sync.Mutex
	torn   []int64
	rounds []Round
	failed []error
}

func (s *spy) TornTail(bytes int64) { s.mu.Lock(); defer s.mu.Unlock(); s.torn = append(s.torn, bytes) }
func (s *spy) Tidied(r Round)       { s.mu.Lock(); defer s.mu.Unlock(); s.rounds = append(s.rounds, r) }
func (s *spy) UpkeepFailed(e error) { s.mu.Lock(); defer s.mu.Unlock(); s.failed = append(s.failed, e) }

// The files of the tests: the clock begins at 2000-01-01T00, and replayed hours have any name.
const (
	hour     = "2026-11-04T05"
	marked   = hour + "/raw-1.jsonl"
	suffixed = hour + "/raw-2-abcdefghij234.jsonl"
	theirs   = hour + "/raw-3.jsonl"
	longAgo  = -3 * time.Hour
)

// put makes a file that was last changed so long ago.
func put(t *testing.T, d *disktest.Disk, path, content string, ago time.Duration) {
	t.Helper()
	d.Append(path, content, time.Now().Add(ago))
	if path != theirs && !strings.HasSuffix(path, ".txt") {
		mark(t, d, path)
		d.Append(path, "", time.Now().Add(ago))
	}
}

func mark(t *testing.T, d *disktest.Disk, path string) {
	file, err := d.Process().Open(path)
	require.NoError(t, err)
	require.NoError(t, file.Mark(true))
	require.NoError(t, file.Close())
}

// lockedBy returns a process that has a file open and locked, as a writer does.
func lockedBy(t *testing.T, d *disktest.Disk, path string) *disktest.Process {
	p := d.Process()
	file, err := p.Open(path)
	require.NoError(t, err)
	require.NoError(t, file.Lock())
	return p
}

// keep lets a keeper work for so long.
func keep(d *disktest.Disk, o Options, during time.Duration) *spy {
	s := &spy{}
	k := New(d.Process(), o, s)
	k.Start()
	time.Sleep(during)
	synctest.Wait()
	k.Close()
	return s
}

// bubble runs a test on a disk, with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T, d *disktest.Disk)) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		require.NoError(t, d.Process().MakeAll(0o700))
		f(t, d)
	})
}

func TestRepair(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, "whole\ntorn", -time.Minute)
		put(t, d, theirs, "of a hook that was killed\ntorn too", -time.Hour)
		put(t, d, suffixed, "whole\n", -time.Hour)
		put(t, d, hour+"/other.txt", "no newline", -time.Hour)
		put(t, d, "other/raw-1.jsonl", "no hour", -time.Hour)
		put(t, d, hour+"/raw-4.jsonl", "long ago\ntorn", -recent)
		put(t, d, hour+"/raw-5.jsonl.zst", "compressed", -time.Hour)
		s := keep(d, Options{}, time.Hour)
		assert.Equal(t, "whole\n", d.Content(marked))
		assert.Equal(t, "of a hook that was killed\n", d.Content(theirs))
		assert.Equal(t, "whole\n", d.Content(suffixed))
		assert.Equal(t, "no newline", d.Content(hour+"/other.txt"))
		assert.Equal(t, "no hour", d.Content("other/raw-1.jsonl"))
		assert.Equal(t, "long ago\ntorn", d.Content(hour+"/raw-4.jsonl"))
		assert.Equal(t, "compressed", d.Content(hour+"/raw-5.jsonl.zst"))
		assert.ElementsMatch(t, []int64{4, 8}, s.torn)
		assert.Empty(t, s.failed)
	})
}

// A file that may be live is left alone until it is not any more.
func TestRepairLater(t *testing.T) {
	for name, test := range map[string]struct {
		ago    time.Duration
		locked bool
	}{
		"changed lately": {-30 * time.Second, false},
		"locked":         {-time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *disktest.Disk) {
				put(t, d, marked, "whole\ntorn", test.ago)
				writer := d.Process()
				if test.locked {
					writer = lockedBy(t, d, marked)
				}
				k := New(d.Process(), Options{}, &spy{})
				k.Start()
				defer k.Close()
				time.Sleep(29 * time.Second)
				synctest.Wait()
				assert.Equal(t, "whole\ntorn", d.Content(marked))
				writer.Kill()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				assert.Equal(t, "whole\n", d.Content(marked))
			})
		})
	}
}

// A file that needs no repair is not locked: a writer that opens it just then would have to take another name.
func TestWholeFilesAreNotLocked(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, "whole\n", -time.Hour)
		locked := 0
		d.SetThen(func(call disktest.Call, _ string) {
			if call == disktest.Lock {
				locked++
			}
		})
		keep(d, Options{MaxAge: 24 * time.Hour}, time.Hour)
		assert.Zero(t, locked)
	})
}

// A directory that is mounted after the start is looked at then.
func TestDirectoryThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		k := New(d.Process(), Options{}, &spy{})
		k.Start()
		defer k.Close()
		synctest.Wait()
		put(t, d, marked, "whole\ntorn", -time.Hour)
		time.Sleep(interval)
		synctest.Wait()
		assert.Equal(t, "whole\n", d.Content(marked))
	})
}

// Where locks are not kept nobody knows who writes.
func TestNoRepairWithoutLocks(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		d.NoLocks = true
		put(t, d, marked, "whole\ntorn", -time.Hour)
		s := keep(d, Options{Compress: true}, 24*time.Hour)
		assert.Equal(t, "whole\ntorn", d.Content(marked))
		assert.Equal(t, []string{marked}, d.Files(), "nor is it compressed")
		assert.Empty(t, s.torn)
	})
}

func TestMaxAge(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		old := -48*time.Hour - time.Minute
		put(t, d, marked, "old\n", old)
		put(t, d, suffixed, "old\n", old)
		put(t, d, "2026-11-04T06/raw-1.jsonl.zst", "old, compressed", old)
		put(t, d, "2026-11-04T07/raw-1.jsonl", "old, in use\n", old)
		lockedBy(t, d, "2026-11-04T07/raw-1.jsonl")
		put(t, d, "1970-01-01T00/raw-1.jsonl", "of an old hour, written lately\n", -46*time.Hour)
		put(t, d, theirs, "of the hook\n", old)
		put(t, d, hour+"/notes.txt", "of somebody\n", old)
		s := keep(d, Options{MaxAge: 48 * time.Hour}, time.Hour)
		assert.Equal(t, []string{"1970-01-01T00/raw-1.jsonl", hour + "/notes.txt", theirs, "2026-11-04T07/raw-1.jsonl"}, d.Files())
		assert.Equal(t, []string{"1970-01-01T00", hour, "2026-11-04T07"}, d.Directories(), "a directory that became empty is gone")
		assert.Equal(t, []Round{{Removed: 3, Freed: 8 + 15}}, s.rounds)
		assert.Empty(t, s.failed)
	})
}

// The oldest go first, by their last change, until the rest fits; what others wrote does not count.
func TestMaxBytes(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		ten := "123456789\n"
		for i := range 10 {
			put(t, d, fmt.Sprintf("2026-11-04T%02d/raw-1.jsonl", i), ten, longAgo-time.Duration(i)*time.Hour) // the first is the newest
		}
		put(t, d, theirs[:len(hour)]+"/raw-3.jsonl", strings.Repeat(ten, 100), -1000*time.Hour)
		put(t, d, "2026-11-05T00/raw-1.jsonl", ten, 0) // of an hour that is not over
		keep(d, Options{MaxBytes: 45}, time.Second)
		var left []string
		for i := range 3 {
			left = append(left, fmt.Sprintf("2026-11-04T%02d/raw-1.jsonl", i))
		}
		assert.Equal(t, append(left, theirs, "2026-11-05T00/raw-1.jsonl"), d.Files())
	})
}

func TestMinFree(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		d.Capacity = 100
		for i := range 9 {
			put(t, d, fmt.Sprintf("2026-11-04T%02d/raw-1.jsonl", i), "123456789\n", longAgo-time.Duration(i)*time.Hour)
		}
		keep(d, Options{MinFree: 35}, time.Second)
		assert.Len(t, d.Files(), 6)
		assert.NotEmpty(t, d.Content("2026-11-04T00/raw-1.jsonl"), "the newest stays")
	})
}

// Where locks are not kept a file is closed when its writer surely has closed it.
func TestRemoveWithoutLocks(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		d.NoLocks = true
		put(t, d, suffixed, "a\n", -2*time.Minute)
		keep(d, Options{MaxAge: time.Minute}, 2*time.Hour-3*time.Minute)
		assert.Len(t, d.Files(), 1)
		keep(d, Options{MaxAge: time.Minute}, 3*time.Minute)
		assert.Empty(t, d.Files())
	})
}

// A file that is written to meanwhile stays: before it is locked by its writer, and at any time by somebody who takes no lock.
func TestWrittenMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		after   disktest.Call
	}{
		"removing":                    {Options{MaxAge: time.Hour}, disktest.Lock},
		"compressing":                 {Options{Compress: true}, disktest.Lock},
		"compressing, after the read": {Options{Compress: true}, disktest.Touch},
		"compressing, after the sync": {Options{Compress: true}, disktest.Sync},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *disktest.Disk) {
				put(t, d, marked, "old\n", -48*time.Hour)
				d.SetThen(func(call disktest.Call, _ string) {
					if call == test.after {
						d.SetThen(nil)
						d.Append(marked, "late\n", time.Now())
					}
				})
				keep(d, test.options, time.Second)
				assert.Equal(t, "old\nlate\n", d.Content(marked))
				assert.Equal(t, []string{marked}, d.Files())
			})
		})
	}
}

// What a process left that was killed while it compressed does not keep the next one from it.
func TestTemporaryFileIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, "a\n", longAgo)
		d.Append(hour+"/.raw-1.jsonl.zst.tmp", "half", time.Now())
		d.Append(hour+"/.raw-2.jsonl.zst.tmp", "of a file that is gone", time.Now())
		s := keep(d, Options{Compress: true}, 2*time.Minute)
		assert.Equal(t, "a\n", plain(t, d, marked+".zst"))
		assert.Empty(t, s.failed)
		keep(d, Options{Compress: true}, time.Hour)
		assert.Equal(t, []string{marked + ".zst"}, d.Files())
	})
}

// plain is what a compressed file holds.
func plain(t *testing.T, d *disktest.Disk, path string) string {
	t.Helper()
	decoder, err := zstd.NewReader(strings.NewReader(d.Content(path)))
	require.NoError(t, err)
	defer decoder.Close()
	content, err := io.ReadAll(decoder)
	require.NoError(t, err)
	return string(content)
}

func TestCompress(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		lines := strings.Repeat("what the model said\n", 100_000)
		put(t, d, marked, lines+"torn", longAgo)
		put(t, d, suffixed, "a\n", longAgo)
		put(t, d, theirs, "of the hook\n", longAgo)
		put(t, d, "2026-11-04T06/raw-1.jsonl", "in use\n", longAgo)
		lockedBy(t, d, "2026-11-04T06/raw-1.jsonl")
		put(t, d, "2026-11-04T07/raw-1.jsonl", "changed in this hour\n", 0)
		s := keep(d, Options{Compress: true}, 30*time.Minute)
		assert.Equal(t, []string{marked + ".zst", suffixed + ".zst", theirs, "2026-11-04T06/raw-1.jsonl", "2026-11-04T07/raw-1.jsonl"}, d.Files())
		assert.True(t, lines == plain(t, d, marked+".zst"))
		assert.Equal(t, "a\n", plain(t, d, suffixed+".zst"))
		assert.True(t, d.IsMarked(marked+".zst"))
		assert.Less(t, len(d.Content(marked+".zst")), len(lines)/100)
		assert.Equal(t, []Round{{Compressed: 2}}, s.rounds)
		assert.Equal(t, []int64{4}, s.torn)
		assert.Empty(t, s.failed)
	})
}

// A compressed file is as old as its lines: retention goes by that.
func TestCompressedFilesGrowOld(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, "a\n", -47*time.Hour)
		o := Options{Compress: true, MaxAge: 48 * time.Hour}
		keep(d, o, 30*time.Minute)
		assert.Equal(t, []string{marked + ".zst"}, d.Files())
		keep(d, o, time.Hour)
		assert.Empty(t, d.Files())
	})
}

// Late records of a compressed hour are compressed beside it.
func TestCompressLateLines(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, "early\n", longAgo)
		keep(d, Options{Compress: true}, time.Second)
		put(t, d, marked, "late\n", longAgo)
		keep(d, Options{Compress: true}, time.Second)
		files := d.Files()
		require.Len(t, files, 2)
		assert.Equal(t, "late\n", plain(t, d, files[0]))
		assert.Equal(t, marked+".zst", files[1])
		assert.Equal(t, "early\n", plain(t, d, files[1]))
	})
}

// TestCompressFails lets each call fail, and then kills the process after each call: whatever happened, no line is lost or
// doubled once a later round is done, and the power may be cut at any time.
func TestCompressFails(t *testing.T) {
	for _, earlier := range []bool{false, true} { // lines of that name that are compressed already
		for _, killed := range []bool{false, true} {
			for n := 1; failCompress(t, n, killed, earlier); n++ {
			}
		}
	}
}

// failCompress lets the nth call fail, and all after it where the process is killed. It reports whether there was one.
func failCompress(t *testing.T, n int, killed, earlier bool) (failed bool) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		want := []string{"a\nb\n"}
		if earlier {
			want = append(want, "earlier\n")
			put(t, d, marked, "earlier\n", longAgo)
			keep(d, Options{Compress: true}, time.Second)
		}
		put(t, d, marked, "a\nb\n", longAgo)
		makeSafe(t, d)
		failed = compressFailing(d, n, killed, func(bytes int) int { return bytes / 2 })
		for _, left := range []*disktest.Disk{d, d.CutPower(func(int) int { return 0 })} {
			keep(left, Options{Compress: true}, 4*time.Hour)
			var got []string
			for _, path := range left.Files() {
				require.Regexp(t, `^`+hour+`/raw-1(-\w+)?\.jsonl\.zst$`, path, "call %d", n)
				got = append(got, plain(t, left, path))
			}
			assert.ElementsMatch(t, want, got, "call %d", n)
		}
	})
	return failed
}

// makeSafe syncs all that is there.
func makeSafe(t *testing.T, d *disktest.Disk) {
	p := d.Process()
	for _, directory := range append([]string{"."}, d.Directories()...) {
		require.NoError(t, p.SyncDirectory(directory))
	}
	for _, path := range d.Files() {
		file, err := p.Open(path)
		require.NoError(t, err)
		require.NoError(t, file.Sync())
		require.NoError(t, file.Close())
	}
}

// Close does not wait until a large file is compressed, and leaves nothing behind.
func TestCloseWhileCompressing(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		put(t, d, marked, strings.Repeat("a line\n", 1_000_000), longAgo)
		k := New(d.Process(), Options{Compress: true}, &spy{})
		reads := 0
		d.SetThen(func(call disktest.Call, path string) {
			if call == disktest.ReadAt && path == marked {
				if reads++; reads == 3 {
					k.stop()
				}
			}
		})
		k.Start()
		k.Close()
		assert.Equal(t, []string{marked}, d.Files())
		assert.Less(t, reads, 10)
	})
}

func TestSameContent(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 3*compared)
	for name, test := range map[string]struct {
		a, b []byte
		want bool
	}{
		"empty":            {nil, nil, true},
		"short":            {[]byte("a"), []byte("a"), true},
		"other":            {[]byte("a"), []byte("b"), false},
		"longer":           {[]byte("a"), []byte("ab"), false},
		"long":             {long, long, true},
		"longer by one":    {long, append(bytes.Clone(long), 'x'), false},
		"differs late":     {long, append(bytes.Clone(long[1:]), 'y'), false},
		"just one block":   {long[:compared], long[:compared], true},
		"nothing and some": {nil, long, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, sameContent(bytes.NewReader(test.a), bytes.NewReader(test.b)))
			assert.Equal(t, test.want, sameContent(bytes.NewReader(test.b), bytes.NewReader(test.a)))
		})
	}
}

// More files than a round removes at the most: the oldest go first nevertheless.
func TestOldest(t *testing.T) {
	bubble(t, func(t *testing.T, d *disktest.Disk) {
		for i := range 500 {
			put(t, d, fmt.Sprintf("%s/raw-%d.jsonl", hour, i+10), "a\n", longAgo-time.Duration(i)*time.Minute)
		}
		k := New(d.Process(), Options{MaxBytes: 1}, &spy{})
		all := k.survey(t.Context())
		require.Len(t, all.oldest, 500)
		assert.Equal(t, int64(1000), all.bytes)
		for i, e := range all.oldest {
			assert.Equal(t, fmt.Sprintf("raw-%d.jsonl", 509-i), e.Name)
		}
	})
}

// The real file system does the same.
func TestOnAFileSystem(t *testing.T) {
	d := disk.At(t.TempDir())
	_, err := d.Mkdir(hour, 0o700)
	require.NoError(t, err)
	file, err := d.Create(suffixed, 0o640)
	require.NoError(t, err)
	_, err = io.WriteString(file, "a\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	old := time.Now().Add(-26 * time.Hour).Truncate(time.Second)
	require.NoError(t, d.Touch(suffixed, old))
	if locks, _ := d.Locks(hour); !locks {
		t.Skip("locks can't be relied on where the temporary directory is")
	}
	s := &spy{}
	assert.Equal(t, Round{Compressed: 1}, New(d, Options{Compress: true}, s).compressAll(t.Context()))
	require.NoError(t, d.Walk(hour, func(info disk.Info) error {
		assert.Equal(t, "raw-2-abcdefghij234.jsonl.zst", info.Name)
		assert.Equal(t, old, info.Modified)
		return nil
	}))
	done, _ := New(d, Options{MaxAge: 25 * time.Hour}, s).removeOldest(t.Context())
	assert.Equal(t, 1, done.Removed)
	_, err = d.Open(suffixed + ".zst")
	assert.Error(t, err)
	assert.Empty(t, s.failed)
}
