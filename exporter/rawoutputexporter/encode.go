package rawoutputexporter

import (
	"cmp"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/hourly"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// largestKept is the largest buffer, in bytes, that an encoder keeps for the next batch.
const largestKept = 1 << 20

// encoder makes lines of a batch. It is used again for the next one.
type encoder struct {
	ofSource  bool // the process id of the resource names the file
	ofWriting bool // the time of writing names the hour
	mostBytes int  // of a line
	ownPID    int
	include   record.Include

	now       time.Time
	around    record.Surroundings // of the event that is encoded
	pid       int                 // for the records of the current resource
	reader    record.Reader
	lines     record.Encoder
	bySlot    map[slot]*hour // of this batch
	last      *hour          // which most often is the next one too
	hours     []*hour        // the same, in the order in which they came up
	spare     []byte         // the buffer of an earlier hour
	skipped   int
	malformed int
	tooLarge  int
	problem   error // of the latest malformed record
}

func newEncoder(cfg *Config) *encoder {
	return &encoder{
		ofSource:  cfg.PID == pidOfSource,
		ofWriting: cfg.Hour == hourOfWriting,
		mostBytes: cfg.MaxRecordBytes,
		ownPID:    os.Getpid(),
		include:   cfg.includes(),
		reader:    record.Reader{Include: cfg.includes()},
		bySlot:    map[slot]*hour{},
	}
}

// slot is what records of one file have in common: cheaper to tell than the file's name.
type slot struct {
	hour uint64 // since 1970
	pid  int
}

// hour is the lines of one hour that go to one file.
type hour struct {
	slot    slot
	key     hourly.Key
	lines   []byte
	records int
	err     error // of the latest attempt to write them
}

// begin makes the encoder ready for a batch.
func (e *encoder) begin(now time.Time) {
	e.now = now
	e.pid = e.ownPID
}

// Enter implements signal.Visitor.
func (e *encoder) Enter(scope signal.Scope) {
	e.around.Resource = scope.Resource.Attributes()
	if e.ofSource {
		e.pid = cmp.Or(pidOf(scope.Resource), e.ownPID)
	}
}

// The attribute that names a process, and the largest id that Linux gives.
const (
	processPID = "process.pid"
	largestPID = 1 << 22
)

// pidOf returns the process id of a resource, 0 where it says none.
func pidOf(resource pcommon.Resource) int {
	value, ok := resource.Attributes().Get(processPID)
	if !ok || value.Type() != pcommon.ValueTypeInt || value.Int() < 1 || value.Int() > largestPID {
		return 0
	}
	return int(value.Int())
}

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
	e.add(e.hourOf(finishedAt), r, &event)
}

// add adds a record's line, unless that is too long.
func (e *encoder) add(h *hour, r *record.Record, event *signal.Event) {
	before := len(h.lines)
	e.around.TraceID, e.around.SpanID, e.around.Attributes = event.Trace.TraceID, event.Trace.SpanID, event.Attributes
	h.lines = e.lines.AppendLineWith(h.lines, r, e.include, &e.around)
	if len(h.lines)-before > e.mostBytes {
		h.lines = h.lines[:before]
		e.tooLarge++
		return
	}
	h.records++
}

func (e *encoder) hourOf(finishedAt uint64) *hour {
	if e.ofWriting {
		finishedAt = uint64(e.now.UnixNano())
	}
	in := slot{finishedAt / uint64(time.Hour), e.pid}
	if e.last != nil && e.last.slot == in {
		return e.last
	}
	h, ok := e.bySlot[in]
	if !ok {
		h = &hour{slot: in, key: hourly.Key{Hour: string(record.AppendHour(nil, finishedAt)), PID: e.pid}, lines: e.spare}
		e.spare = nil
		e.bySlot[in] = h
		e.hours = append(e.hours, h)
	}
	e.last = h
	return h
}

// filled returns the hours that have lines.
func (e *encoder) filled() []*hour {
	return slices.DeleteFunc(slices.Clone(e.hours), func(h *hour) bool { return h.records == 0 })
}

// end gives up what belonged to the batch. It keeps the buffer of one hour, as most batches have one.
func (e *encoder) end() {
	if len(e.hours) > 0 && cap(e.hours[0].lines) <= largestKept {
		e.spare = e.hours[0].lines[:0]
	}
	e.reader.Release()
	e.around = record.Surroundings{}
	clear(e.bySlot)
	clear(e.hours)
	e.hours, e.last = e.hours[:0], nil
	e.skipped, e.malformed, e.tooLarge, e.problem = 0, 0, 0, nil
}
