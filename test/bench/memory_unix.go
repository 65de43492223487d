//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakMemory returns how many bytes of memory a process had at the most.
func peakMemory(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return usage.Maxrss // bytes there, and kilobytes elsewhere
	}
	return usage.Maxrss << 10
}
