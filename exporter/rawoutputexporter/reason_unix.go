//go:build !windows

package rawoutputexporter

import "syscall"

// What the system calls a full disk, or a quota that is used up, and a file system that can't be written to.
var (
	noSpace  = []error{syscall.ENOSPC, syscall.EDQUOT}
	readOnly = []error{syscall.EROFS}
)
