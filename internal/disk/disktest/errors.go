package disktest

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrFault is what a call fails with that was made to fail.
var ErrFault = errors.New("fault")

var (
	errFull    = error(syscall.ENOSPC)
	errNoMarks = fmt.Errorf("files can't be marked: %w", errors.ErrUnsupported)
)

// Nth makes the nth call fail, counted from 1, of those that the process makes. Failed is the call that did.
type Nth struct {
	N      int
	Failed Call
	calls  int
	// Percent of what a write that fails is given is written all the same: a disk may be full at any byte.
	Percent int
}

// Fault is for Disk.SetFault.
func (f *Nth) Fault(call Call, path string) (func(int) int, error) {
	f.calls++
	if f.calls != f.N {
		return nil, nil
	}
	f.Failed = call
	return func(bytes int) int { return bytes * f.Percent / 100 }, fmt.Errorf("%w at call %d", ErrFault, f.calls)
}
