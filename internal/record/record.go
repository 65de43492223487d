// Package record is the raw-output record: its form as attributes of an event and its form as a line of JSON
// (docs/contract.md, section 3).
package record // import "github.com/otel-rawoutput/rawoutput/internal/record"

import (
	"bytes"
	"unicode/utf8"
)

// Record is what became of one output. Its strings need not be valid UTF-8; see Encoder.
type Record struct {
	RequestID       string
	DisaggRequestID string // empty is null
	OutputIndex     uint32
	StartedAt       uint64 // nanoseconds since 1970; the line and the attribute have microseconds
	FinishedAt      uint64
	Streaming       bool
	Aborted         bool
	Partial         bool
	EndReason       string // meaningful where HasEndReason is set, and then possibly empty; else it is null
	HasEndReason    bool
	Text            string
	Frames          []string // the text that each chunk added, none of them empty
	// ValidUTF8 says that the text and the frames are known to be valid UTF-8, so that nobody needs to look; it is not on the
	// line.
	ValidUTF8 bool
	// FramesConsistent says that the frames of the line add up to the text of the line, and that no chunk is known to be
	// missing.
	FramesConsistent bool
	TokenIDs         []uint32

	// What follows says how the output's chunks arrived. It is on the line only where it is asked for.

	Chunks          Count    // that came
	MissingChunks   Count    // that are known to be missing
	DuplicateChunks Count    // that came again
	FrameTimes      []uint32 // when each of Frames came, in microseconds after StartedAt; none where nobody kept them
}

// Count is a number that may be unknown.
type Count struct {
	Value uint32
	Known bool
}

// CountOf returns a known number.
func CountOf(n uint32) Count { return Count{n, true} }

// AddUp reports whether the frames of a record's line add up to the text of its line. The line decides, not the bytes
// that it was made of: where a character was cut in two, the line has U+FFFD for each of its bytes in the frames, but the
// character in the text; and the two halves of a surrogate pair are one character only where they are in one string.
func AddUp(frames []string, text string) bool {
	if utf8.ValidString(text) && allValid(frames) {
		return isCutAnywhere(text, frames)
	}
	var line []byte
	for i, frame := range frames {
		if i > 0 && cutsPair(frames[i-1], frame) {
			return false
		}
		line = appendEscaped(line, frame)
	}
	return bytes.Equal(line, appendEscaped(nil, text))
}

// cutsPair reports whether the one frame ends with the first half of a surrogate pair and the other begins with the second.
func cutsPair(frame, next string) bool {
	if len(frame) < surrogateLen || !startsWithSurrogate(next) {
		return false
	}
	end := frame[len(frame)-surrogateLen:]
	return startsWithSurrogate(end) && end[1] < lowSurrogates && next[1] >= lowSurrogates
}

func allValid(frames []string) bool {
	for _, frame := range frames {
		if !utf8.ValidString(frame) {
			return false
		}
	}
	return true
}
