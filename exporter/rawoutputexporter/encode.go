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
	include   record.Include
	now       time.Time
	around    record.Surroundings // of the event that is encoded
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

// newEncoder returns an encoder of lines that have more keys than each line has.
func newEncoder(include record.Include) *encoder {
	return &encoder{include: include, reader: record.Reader{Include: include}}
}

// Enter implements signal.Visitor.
func (e *encoder) Enter(scope signal.Scope) { e.around.Resource = scope.Resource.Attributes() }

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
	h.lines = e.appendLine(h.lines, r, &event)
	h.records++
}

func (e *encoder) appendLine(lines []byte, r *record.Record, event *signal.Event) []byte {
	if e.include == (record.Include{}) {
		return record.AppendLine(lines, r)
	}
	e.around.TraceID, e.around.SpanID, e.around.Attributes = event.Trace.TraceID, event.Trace.SpanID, event.Attributes
	return record.AppendLineWith(lines, r, e.include, &e.around)
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
	e.around = record.Surroundings{}
	clear(e.byHour)
	clear(e.hours)
	e.hours = e.hours[:0]
	e.skipped, e.malformed, e.problem = 0, 0, nil
}
