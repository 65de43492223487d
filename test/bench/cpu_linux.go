package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time that a process has taken so far, user and system, to the nanosecond: /proc has hundredths of a
// second. Its clock is numbered as clock_getcpuclockid(3) does.
func cpuTime(pid int) (time.Duration, error) {
	const cpuClockSched = 2
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|cpuClockSched), &t)
	return time.Duration(t.Nano()), err
}
