package hourly

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errFault = errors.New("fault")

// faulty is a file system in memory in which one call fails.
type faulty struct {
	files  map[string]string
	open   int    // files that are open
	calls  int    // counted from 1
	failed string // the call that failed
	at     int    // which call fails; 0 is none
	// written says how much of what a failed write was given is written all the same, in percent: a disk may be full at any byte.
	written int
	// truncateToo lets a cut fail after a failed write.
	truncateToo bool
	// closeToo lets each file fail to close.
	closeToo bool
}

func newFaulty() *faulty { return &faulty{files: map[string]string{}} }

// fails counts a call, and reports whether it is the one to fail.
func (f *faulty) fails(call string) bool {
	f.calls++
	if f.calls == f.at {
		f.failed = call
	}
	return f.calls == f.at
}

func (f *faulty) MakeDirectory(string, fs.FileMode) error {
	if f.fails("make directory") {
		return errFault
	}
	return nil
}

func (f *faulty) Probe(string) error {
	if f.fails("probe") {
		return errFault
	}
	return nil
}

func (f *faulty) OpenAppend(directory, hour, name string, _ Permissions) (File, error) {
	if f.fails("open") {
		return nil, errFault
	}
	f.open++
	return &faultyFile{f, strings.Join([]string{directory, hour, name}, "/")}, nil
}

type faultyFile struct {
	*faulty
	path string
}

func (f *faultyFile) Size() (int64, error) {
	if f.fails("size") {
		return 0, errFault
	}
	return int64(len(f.files[f.path])), nil
}

func (f *faultyFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.fails("read") {
		return 0, errFault
	}
	return strings.NewReader(f.files[f.path]).ReadAt(p, offset)
}

func (f *faultyFile) Write(data []byte) (int, error) {
	if f.fails("write") {
		n := len(data) * f.written / 100
		f.files[f.path] += string(data[:n])
		return n, errFault
	}
	f.files[f.path] += string(data)
	return len(data), nil
}

var errCut = errors.New("cannot cut")

func (f *faultyFile) Truncate(size int64) error {
	if f.truncateToo {
		return errCut
	}
	if f.fails("truncate") {
		return errFault
	}
	f.files[f.path] = f.files[f.path][:size]
	return nil
}

var errClose = errors.New("cannot close")

func (f *faultyFile) Close() error {
	f.open--
	if f.closeToo {
		return errClose
	}
	if f.fails("close") {
		return errFault
	}
	return nil
}

const file = "d/" + hour + "/" + name

// TestEachCallFails lets the first call fail, then the second, and so on until none is left to fail. Whatever failed, the
// file holds whole lines only, Append tells, no file stays open, and the next Append goes on.
func TestEachCallFails(t *testing.T) {
	for _, written := range []int{0, 50, 100} {
		var failed []string
		for at := 1; ; at++ {
			f := newFaulty()
			f.at, f.written = at, written
			w := NewWriter("d", pid, usual, f)
			errs := map[string]error{}
			for _, piece := range pieces {
				errs[piece] = w.Append(hour, []byte(piece))
			}
			if f.failed == "" {
				break
			}
			failed = append(failed, f.failed)
			t.Run(fmt.Sprintf("%d%% written, call %d, %s", written, at, f.failed), func(t *testing.T) {
				checkPieces(t, f, errs)
			})
		}
		first, each := []string{"open", "size", "write", "close"}, []string{"open", "size", "read", "write", "close"}
		assert.Equal(t, slices.Concat(first, each, each), failed, "all calls failed once")
	}
}

var pieces = []string{"first\nlines\n", "second\nlines\n", "third\nlines\n"}

func checkPieces(t *testing.T, f *faulty, errs map[string]error) {
	want, failures := "", 0
	for _, piece := range pieces {
		if errs[piece] != nil {
			require.ErrorIs(t, errs[piece], errFault)
			assert.Equal(t, f.failed == "close", errors.Is(errs[piece], ErrUncertain), "to append it again would double it")
			failures++
		}
		// A file that cannot be closed has the lines; that they may not be safe is what the error says.
		if errs[piece] == nil || f.failed == "close" {
			want += piece
		}
	}
	assert.Equal(t, 1, failures, "the one that met the fault")
	assert.Equal(t, want, f.files[file])
	assert.Zero(t, f.open, "files left open")
}

// Where the lines are not written, it does not matter that the file cannot be closed either: they may be appended again.
func TestWriteAndCloseFail(t *testing.T) {
	f := newFaulty()
	f.at, f.closeToo = 3, true
	err := NewWriter("d", pid, usual, f).Append(hour, []byte("a\n"))
	require.Equal(t, "write", f.failed)
	assert.ErrorIs(t, err, errFault)
	assert.NotErrorIs(t, err, ErrUncertain)
	assert.Empty(t, f.files[file])
}

// Where what was written cannot be cut off again, the error says both, and what comes next is no part of it.
func TestCutFails(t *testing.T) {
	f := newFaulty()
	f.at, f.written, f.truncateToo = 3, 50, true
	w := NewWriter("d", pid, usual, f)
	err := w.Append(hour, []byte("torn.\n"))
	require.Equal(t, "write", f.failed)
	assert.ErrorIs(t, err, errFault)
	assert.ErrorIs(t, err, errCut)
	assert.ErrorIs(t, err, ErrUncertain, "to append it again might double lines")
	assert.Zero(t, f.open)
	require.NoError(t, w.Append(hour, []byte("next\n")))
	assert.Equal(t, "tor\nnext\n", f.files[file])
}

func TestPrepareFails(t *testing.T) {
	for at, call := range []string{"make directory", "probe"} {
		f := newFaulty()
		f.at = at + 1
		assert.ErrorIs(t, NewWriter("d", pid, usual, f).Prepare(), errFault)
		assert.Equal(t, call, f.failed)
		assert.Equal(t, f.at, f.calls, "nothing is tried after it")
	}
	assert.NoError(t, NewWriter("d", pid, usual, newFaulty()).Prepare())
}

// Each call opens and closes its file: one that was moved away is not written to any more, and none stays open for an hour
// that nobody writes to again.
func TestNothingStaysOpen(t *testing.T) {
	f := newFaulty()
	w := NewWriter("d", pid, usual, f)
	for _, h := range []string{hour, later, hour} {
		require.NoError(t, w.Append(h, []byte("a\n")))
		assert.Zero(t, f.open)
	}
	assert.Equal(t, map[string]string{file: "a\na\n", "d/" + later + "/" + name: "a\n"}, f.files)
}
