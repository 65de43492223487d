package rawoutputexporter

import (
	"errors"
	"io/fs"

	"github.com/otel-rawoutput/rawoutput/internal/hourly"
)

// dropReason is why a record is lost.
type dropReason string

// The reasons, as metadata.yaml lists them.
const (
	malformed  dropReason = "malformed"
	encoding   dropReason = "encoding"
	tooLarge   dropReason = "too_large"
	ioError    dropReason = "io_error"
	diskFull   dropReason = "disk_full"
	permission dropReason = "permission"
	queueFull  dropReason = "queue_full"
	atShutdown dropReason = "shutdown"
)

var dropReasons = [...]dropReason{malformed, encoding, tooLarge, ioError, diskFull, permission, queueFull, atShutdown}

// reasonOf tells what a write failed with.
func reasonOf(err error) dropReason {
	switch {
	case isAny(err, noSpace), errors.Is(err, hourly.ErrReserved):
		return diskFull
	case isAny(err, readOnly), errors.Is(err, fs.ErrPermission):
		return permission
	default:
		return ioError
	}
}

func isAny(err error, targets []error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
