package rawoutputexporter

import (
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// largestKept is the largest buffer, in bytes, that an encoder keeps for the next batch.
const largestKept = 1 << 20

// encoder makes lines of a batch. It is used again for the next one.
type encoder struct {
	now       time.Time
	reader    record.Reader
	name      []byte           // of an hour, as scratch
	byHour    map[string]*hour // of this batch
	hours     []*hour          // the same, in the order in which they came up
	spare     []byte           // the buffer of an earlier hour
	skipped   int
	malformed int
	problem   error // of the latest malformed record
}

// hour is the lines of one hour.
type hour struct {
	name    string
	lines   []byte
	records int
	err     error // of the latest attempt to write them
}

// begin makes the encoder ready for a batch.
func (e *encoder) begin(now time.Time) {
	e.now = now
	if e.byHour == nil {
		e.byHour = map[string]*hour{}
	}
}

// Enter implements signal.Visitor.
func (*encoder) Enter(signal.Scope) {}

// Visit implements signal.Visitor.
func (e *encoder) Visit(event signal.Event) {
	if event.Name != contract.EventRecord {
		e.skipped++
		return
	}
	finishedAt := event.Time
	if finishedAt == 0 {
		finishedAt = uint64(e.now.UnixNano())
	}
	startedAt := event.Start
	if startedAt == 0 || startedAt > finishedAt {
		startedAt = finishedAt
	}
	r, err := e.reader.Read(event.Attributes, startedAt, finishedAt)
	if err != nil {
		e.malformed++
		e.problem = err
		return
	}
	h := e.hourOf(finishedAt)
	h.lines = record.AppendLine(h.lines, r)
	h.records++
}

func (e *encoder) hourOf(finishedAt uint64) *hour {
	e.name = record.AppendHour(e.name[:0], finishedAt)
	if h, ok := e.byHour[string(e.name)]; ok {
		return h
	}
	h := &hour{name: string(e.name), lines: e.spare}
	e.spare = nil
	e.byHour[h.name] = h
	e.hours = append(e.hours, h)
	return h
}

// end gives up what belonged to the batch. It keeps the buffer of one hour, as most batches have one.
func (e *encoder) end() {
	if len(e.hours) > 0 && cap(e.hours[0].lines) <= largestKept {
		e.spare = e.hours[0].lines[:0]
	}
	e.reader.Release()
	clear(e.byHour)
	clear(e.hours)
	e.hours = e.hours[:0]
	e.skipped, e.malformed, e.problem = 0, 0, nil
}
