package rawoutputexporter

import "golang.org/x/sys/windows"

// What the system calls a full disk, or a quota that is used up, and a disk that can't be written to.
var (
	noSpace  = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}
	readOnly = []error{windows.ERROR_WRITE_PROTECT}
)
