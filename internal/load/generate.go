// Package load generates the chunks of many made-up outputs, sends them as servers would, and checks what was written of
// them. What an output says follows from its number, so that nothing needs to be kept to check it.
package load // import "github.com/otel-rawoutput/rawoutput/internal/load"

import (
	"fmt"
	"strings"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// Shape is what is generated.
type Shape struct {
	Run             string // tells the outputs of one run from those of another; part of each request id
	Outputs         int    // in all; a multiple of N
	N               int    // outputs a request
	Chunks          int    // an output
	ChunksPerRecord int
	Form            replay.Form // of the records; empty is single for one chunk a record, and packed for more
	Unnumbered      bool
	Aborted         float64 // the share of aborted requests
}

// place is an output's: its request and its index in it.
type place struct{ request, index int }

// place returns that of an output by its number.
func (s *Shape) place(output int) place { return place{output / s.N, output % s.N} }

// requestID is that of a request.
func (s *Shape) requestID(request int) string { return fmt.Sprintf("%s-%d", s.Run, request) }

// frame is the text of a chunk, with characters that must be escaped, are long, or take two code units.
func (s *Shape) frame(at place, chunk int) string {
	return fmt.Sprintf("%d/%d/%d é😀\n", at.request, at.index, chunk)
}

// text is the full text of an output.
func (s *Shape) text(at place) string {
	var text strings.Builder
	for chunk := range s.Chunks {
		text.WriteString(s.frame(at, chunk))
	}
	return text.String()
}

// tokenID is the only one of a chunk.
func (s *Shape) tokenID(at place, chunk int) uint32 {
	return uint32(at.request*31 + at.index*7 + chunk)
}

// isAborted spreads the aborted requests evenly.
func (s *Shape) isAborted(request int) bool {
	return int(float64(request+1)*s.Aborted) > int(float64(request)*s.Aborted)
}

// options are how chunks become records.
func (s *Shape) options() replay.Options {
	form := s.Form
	switch {
	case form != "":
	case s.ChunksPerRecord == 1:
		form = replay.Single
	default:
		form = replay.Packed
	}
	return replay.Options{Form: form, ChunksPerRecord: s.ChunksPerRecord, FullText: replay.FinalChunk, Numbered: !s.Unnumbered}
}

// stream is what one server generates: some outputs in flight at once, a record of each in turn.
type stream struct {
	shape    *Shape
	recorder *replay.Recorder
	open     []progress
	next     int // the next output to begin
	last     int // the output before which it ends
	turn     int
}

// progress is an output in flight.
type progress struct {
	place
	chunks int // so far
}

// newStream returns the stream of outputs first…last-1.
func newStream(shape *Shape, first, last, inFlight int) *stream {
	s := &stream{shape: shape, recorder: replay.NewRecorder(shape.options()), next: first, last: last}
	for len(s.open) < inFlight && s.begin() {
	}
	return s
}

// begin opens the next output, if there is one.
func (s *stream) begin() bool {
	if s.next == s.last {
		return false
	}
	s.open = append(s.open, progress{place: s.shape.place(s.next)})
	s.next++
	return true
}

// record returns the next record, and how many chunks are in it. It is false at the end.
func (s *stream) record() (record replay.Record, chunks int, ok bool) {
	if len(s.open) == 0 {
		return record, 0, false
	}
	s.turn %= len(s.open)
	output := &s.open[s.turn]
	events := make([]replay.Event, min(s.shape.ChunksPerRecord, s.shape.Chunks-output.chunks))
	now := uint64(time.Now().UnixNano())
	for i := range events {
		events[i] = s.shape.event(output.place, output.chunks, now)
		output.chunks++
	}
	records := s.recorder.Records(events)
	if output.chunks < s.shape.Chunks {
		s.turn++
	} else {
		s.replace()
	}
	return records[0], len(events), true
}

// replace has the next output take the place of one that ended.
func (s *stream) replace() {
	s.open[s.turn] = s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	s.begin()
}

func (s *Shape) event(at place, chunk int, now uint64) replay.Event {
	e := replay.Event{
		Type: replay.TypeChunk, Time: now, RequestID: replay.ID(fmt.Sprintf("%q", s.requestID(at.request))),
		OutputIndex: int64(at.index), TextDiff: replay.Text(s.frame(at, chunk)), TokenIDsDiff: []uint32{s.tokenID(at, chunk)},
		IsFinal: chunk == s.Chunks-1, Streaming: true,
	}
	if e.IsFinal {
		e.Text = replay.Text(s.text(at))
		e.Aborted = s.isAborted(at.request)
	}
	return e
}
