package hourly

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hour  = "2026-11-04T05"
	later = "2026-11-04T06"
	pid   = 4711
	name  = "raw-4711.jsonl"
	file  = hour + "/" + name
)

var (
	theKey   = Key{hour, pid}
	laterKey = Key{later, pid}
)

// usually are the options of most tests.
func usually() Options {
	return Options{Permissions: Permissions{File: 0o640, Directory: 0o750}, MaxOpen: 16, Sync: SyncInterval, Interval: time.Second}
}

// spy remembers what it is told.
type spy struct {
	mu                                                           sync.Mutex
	took                                                         []error // the reasons for a suffix
	open, mostOpen, writes, syncs, syncsFailed, rolledBack, torn int
	tornBytes, free, refused                                     int64
}

func (s *spy) count(n *int, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n += by
	s.mostOpen = max(s.mostOpen, s.open)
}

func (s *spy) Opened(n int)         { s.count(&s.open, n) }
func (s *spy) Wrote(time.Duration)  { s.count(&s.writes, 1) }
func (s *spy) Synced(time.Duration) { s.count(&s.syncs, 1) }
func (s *spy) SyncFailed(error)     { s.count(&s.syncsFailed, 1) }
func (s *spy) TookSuffix(path string, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, reason)
}
func (s *spy) RolledBack()          { s.count(&s.rolledBack, 1) }
func (s *spy) TornTail(bytes int64) { s.tornBytes += bytes; s.count(&s.torn, 1) }
func (s *spy) Free(bytes int64)     { s.free = bytes }
func (s *spy) Refused(bytes int64)  { s.refused = bytes }

// writerIn returns a writer to a directory of the machine. It is closed with the test.
func writerIn(t *testing.T, directory string) *Writer {
	t.Helper()
	if locks, err := disk.At(os.TempDir()).Locks("."); err != nil || !locks {
		t.Skip("locks are not known to be kept where the temporary directory is: each file gets a suffix there")
	}
	w := NewWriter(disk.At(directory), usually(), &spy{})
	w.pid = pid
	t.Cleanup(w.Close)
	return w
}

// needsMarks skips a test of files that are opened again where they can't be marked.
func needsMarks(t *testing.T) {
	t.Helper()
	file, err := disk.At(t.TempDir()).Create("file", 0o600)
	require.NoError(t, err)
	defer file.Close()
	if err := file.Mark(true); err != nil {
		t.Skipf("files can't be marked where the temporary directory is: %v", err)
	}
}

// fixture is a writer to a disk in memory.
type fixture struct {
	*Writer
	spy     *spy
	disk    *disktest.Disk
	process *disktest.Process
}

// on returns a writer of a new process on a disk. It has the process id that most files are named by.
func on(d *disktest.Disk, options Options) *fixture {
	f := &fixture{spy: &spy{}, disk: d, process: d.Process()}
	f.Writer = NewWriter(f.process, options, f.spy)
	f.pid = pid
	return f
}

func inMemory() *fixture { return on(disktest.New(), usually()) }

func (f *fixture) append(t *testing.T, key Key, lines string) {
	t.Helper()
	require.NoError(t, f.Append(key, []byte(lines)))
}

// suffixed returns the one file of an hour whose name has a suffix.
func suffixed(t *testing.T, d *disktest.Disk, hour string) string {
	t.Helper()
	var found []string
	for _, path := range d.Files() {
		if strings.HasPrefix(path, hour+"/raw-4711-") {
			found = append(found, path)
		}
	}
	require.Len(t, found, 1, "of %v", d.Files())
	return found[0]
}

func contentOf(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(content)
}

func filesBelow(t *testing.T, directory string) (files []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(directory), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}
