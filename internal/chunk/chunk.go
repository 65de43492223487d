// Package chunk decodes what an inference server sends, a chunk record or a request end (docs/contract.md, sections 1 and
// 2), into plain values. It keeps no state but scratch memory, and changes nothing that it reads.
package chunk // import "github.com/otel-rawoutput/rawoutput/internal/chunk"

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// Chunk is one chunk record: one chunk of an output, or several consecutive ones. Its strings and slices belong to the
// record that it was decoded from and to the Decoder: they are good until the one is released or the other reset.
type Chunk struct {
	RequestID   string // 1 to 256 bytes
	OutputIndex uint32

	Frames   []string // the text that each chunk in the record added, in order; at least one, "" for one without text
	TokenIDs []uint32
	// Text is the full text after the last chunk, where HasText is set; it may then be empty.
	Text    string
	HasText bool

	// Index is how many chunks of the output came before the first one in the record, where Numbered is set. It and the
	// indexes of the other chunks in the record are within what the contract allows.
	Index    uint32
	Numbered bool

	IsFinal   bool
	Aborted   Flag
	Streaming Flag

	// DisaggRequestID is meaningful where HasDisaggRequestID is set; it is then a value, or empty for null.
	DisaggRequestID    string
	HasDisaggRequestID bool

	StartedAt uint64   // the time of the first chunk in the record, in nanoseconds since 1970
	Time      uint64   // the time of the last one
	Ages      []uint64 // of each chunk in the record, in microseconds before Time; none where all are 0

	// EmitterDropped is how many chunks the sending process has dropped since it started.
	EmitterDropped uint32

	// Attributes are the record's own. Others of them are not the contract's (IsOther), and stay on the output's record.
	Attributes pcommon.Map
	Others     int
}

// TimeOf returns the time of the i-th chunk in the record, in nanoseconds since 1970.
func (c *Chunk) TimeOf(i int) uint64 {
	switch {
	case i == 0:
		return c.StartedAt
	case len(c.Ages) > 0:
		return before(c.Time, c.Ages[i])
	default:
		return c.Time
	}
}

// Flag is a boolean that a sender may leave out, so that the last known value counts.
type Flag uint8

// The values of a Flag.
const (
	Unknown Flag = iota
	False
	True
)

// Or returns what the flag says, or known where it says nothing.
func (f Flag) Or(known bool) bool {
	if f == Unknown {
		return known
	}
	return f == True
}

func flagOf(b bool) Flag {
	if b {
		return True
	}
	return False
}

// End is one request end.
type End struct {
	RequestID string // 1 to 256 bytes
	Reason    string // may be empty
	Time      uint64 // nanoseconds since 1970
	// ChunkCounts is how many chunks each output of the request had, by output index; none where the sender does not say.
	// It belongs to the Decoder, until that is reset.
	ChunkCounts []uint32
}

// IsOther reports whether an attribute is none of the contract's, so that it stays on the output's record.
func IsOther(key string) bool {
	return key != contract.AttributeEventName && !strings.HasPrefix(key, contract.Namespace)
}
