// Package tail finds out how a file of lines ends.
package tail // import "github.com/otel-rawoutput/rawoutput/internal/tail"

import (
	"bytes"
	"io"
	"time"
)

// Quiet is how long a file must not have changed for nobody to be within a line of it.
const Quiet = time.Minute

// block is how much is read at a time, in bytes: a torn line may be as long as the longest record.
const block = 64 << 10

// Whole returns how long the file is without a torn line at its end: up to its last newline.
func Whole(file io.ReaderAt, size int64) (int64, error) {
	if size == 0 {
		return 0, nil
	}
	var last [1]byte // nearly always it is the newline
	if err := readAt(file, last[:], size-1); err != nil {
		return 0, err
	}
	if last[0] == '\n' {
		return size, nil
	}
	buffer := make([]byte, block)
	for end := size; end > 0; {
		begin := max(end-block, 0)
		read := buffer[:end-begin]
		if err := readAt(file, read, begin); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(read, '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		end = begin
	}
	return 0, nil
}

// readAt fills p. A reader may say io.EOF with the last byte.
func readAt(file io.ReaderAt, p []byte, offset int64) error {
	n, err := file.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	return err
}
