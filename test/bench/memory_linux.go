package main

import (
	"fmt"
	"os"
	"strings"
)

// peakMemory returns how many bytes of memory a process that runs has had at the most. What wait4(2) says when it has ended
// would not do: that counts from before the process became a Collector, and is at least what this one had.
func peakMemory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscanf(peak, "%d kB", &kilobytes); err != nil {
		return 0, fmt.Errorf("peak memory of process %d: %w", pid, err)
	}
	return kilobytes << 10, nil
}
