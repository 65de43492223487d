//go:build !windows

package disk

import (
	"os"
	"syscall"
)

// toAppend opens a file to append to it and to read how it ends. It does not wait for a writer or a reader where somebody
// put a FIFO in the file's place.
const toAppend = os.O_RDWR | os.O_APPEND | syscall.O_NONBLOCK
