// Package replay turns a recorded stream of a server's hook, one JSON object a line (testdata/conformance), into the OTLP
// records that the server would have sent.
package replay // import "github.com/otel-rawoutput/rawoutput/internal/replay"

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Event is one call of the hook: a chunk, or the end of a request.
type Event struct {
	Type            string   `json:"type"` // "chunk" or "request_end"
	Time            uint64   `json:"time_unix_nano,string"`
	RequestID       ID       `json:"request_id"`
	DisaggRequestID ID       `json:"disagg_request_id"`
	OutputIndex     int64    `json:"output_index"`
	TextDiff        Text     `json:"text_diff"`
	Text            Text     `json:"text"`
	TokenIDsDiff    []uint32 `json:"token_ids_diff"`
	IsFinal         bool     `json:"is_final"`
	Aborted         bool     `json:"aborted"`
	Streaming       bool     `json:"streaming"`
	Reason          Text     `json:"reason"`
}

// The values of Event.Type.
const (
	TypeChunk      = "chunk"
	TypeRequestEnd = "request_end"
)

// ID is an id as the stream has it: a number, a string in quotes, or null.
type ID string

// UnmarshalJSON implements json.Unmarshaler.
func (id *ID) UnmarshalJSON(data []byte) error {
	*id = ID(data)
	return nil
}

// isNull reports whether there is none.
func (id ID) isNull() bool { return id == "" || id == "null" }

// longestLine is the longest line of a stream, in bytes.
const longestLine = 256 << 20

// Read reads a stream. An error names the line.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	n := 1
	for ; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	return events, nil
}

func parse(line []byte) (e Event, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, err
	}
	if e.Type != TypeChunk && e.Type != TypeRequestEnd {
		return Event{}, fmt.Errorf("type is %q: it must be %q or %q", e.Type, TypeChunk, TypeRequestEnd)
	}
	if e.RequestID.isNull() {
		return Event{}, fmt.Errorf("request_id is missing")
	}
	return e, nil
}
