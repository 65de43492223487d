package replay

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otel-rawoutput/rawoutput/internal/attr"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// Form is how a record carries its chunks.
type Form string

// The forms.
const (
	Single Form = "single" // one chunk a record, its text a string
	Array  Form = "array"  // several, an array of strings
	Packed Form = "packed" // several, one string and the lengths of the chunks in it
)

// FullText says which chunks carry the full text.
type FullText string

// The values of FullText.
const (
	EveryChunk FullText = "every"
	FinalChunk FullText = "final"
	NoChunk    FullText = "never"
)

// Options say how events become records.
type Options struct {
	Form            Form
	ChunksPerRecord int // of Array and Packed: the most; only chunks that follow each other in the stream share a record
	FullText        FullText
	// Numbered puts chunk_index on chunks and chunk_counts on request ends. Chunks of an id that is used again after its end
	// are numbered from 0 again.
	Numbered bool
}

// Record is one record: consecutive chunks of one output, or the end of a request.
type Record struct {
	events  []Event
	options Options
	index   int   // of its first chunk, where it is numbered
	counts  []int // of a request end that is numbered, by output index
}

// Records cuts a stream into records.
func Records(events []Event, options Options) []Record { return NewRecorder(options).Records(events) }

// Recorder cuts a stream that comes in parts into records.
type Recorder struct {
	options Options
	numbers numbering
}

// NewRecorder returns a Recorder for one stream.
func NewRecorder(options Options) *Recorder { return &Recorder{options, numbering{}} }

// Records cuts the next part of the stream into records. A record has events of one part.
func (r *Recorder) Records(events []Event) []Record {
	var records []Record
	for len(events) > 0 {
		n := runLen(events, r.options)
		record := Record{events: events[:n], options: r.options}
		if r.options.Numbered {
			r.numbers.number(&record)
		}
		records = append(records, record)
		events = events[n:]
	}
	return records
}

// runLen returns how many of the first events become one record.
func runLen(events []Event, options Options) int {
	first := &events[0]
	if options.Form == Single || first.Type != TypeChunk {
		return 1
	}
	for n := 1; n < len(events) && n < options.ChunksPerRecord; n++ {
		if !events[n-1].isFollowedBy(&events[n]) || micros(events[n].Time)-micros(first.Time) > math.MaxUint32 {
			return n
		}
	}
	return min(len(events), max(options.ChunksPerRecord, 1))
}

// isFollowedBy reports whether another event is the next chunk of the same output, and no earlier.
func (e *Event) isFollowedBy(next *Event) bool {
	return !e.IsFinal && next.Type == TypeChunk && next.RequestID == e.RequestID && next.OutputIndex == e.OutputIndex &&
		next.Time >= e.Time
}

// micros is a time in the microseconds that lines have.
func micros(nanos uint64) uint64 { return nanos / uint64(time.Microsecond) }

// Len is how many events the record stands for.
func (r Record) Len() int { return len(r.events) }

// Time is the record's time: that of its last event.
func (r Record) Time() uint64 { return r.last().Time }

func (r Record) last() *Event { return &r.events[len(r.events)-1] }

// Logs builds a batch of log records.
func Logs(records []Record, resource map[string]string) plog.Logs {
	logs := plog.NewLogs()
	resourceLogs := logs.ResourceLogs().AppendEmpty()
	putResource(resourceLogs.Resource(), resource)
	slice := resourceLogs.ScopeLogs().AppendEmpty().LogRecords()
	for _, r := range records {
		log := slice.AppendEmpty()
		log.SetEventName(r.eventName())
		log.SetTimestamp(pcommon.Timestamp(r.Time()))
		r.put(log.Attributes())
	}
	return logs
}

// Traces builds a batch of spans.
func Traces(records []Record, resource map[string]string) ptrace.Traces {
	traces := ptrace.NewTraces()
	resourceSpans := traces.ResourceSpans().AppendEmpty()
	putResource(resourceSpans.Resource(), resource)
	slice := resourceSpans.ScopeSpans().AppendEmpty().Spans()
	for i, r := range records {
		span := slice.AppendEmpty()
		span.SetName(r.eventName())
		span.SetStartTimestamp(pcommon.Timestamp(r.events[0].Time))
		span.SetEndTimestamp(pcommon.Timestamp(r.Time()))
		span.SetTraceID(traceID(r.events[0].RequestID))
		span.SetSpanID(spanID(r.Time(), uint64(i)))
		r.put(span.Attributes())
	}
	return traces
}

func putResource(resource pcommon.Resource, attributes map[string]string) {
	for key, value := range attributes {
		resource.Attributes().PutStr(key, value)
	}
}

func (r Record) eventName() string {
	if r.last().Type == TypeRequestEnd {
		return contract.EventRequestEnd
	}
	return contract.EventChunk
}

func (r Record) put(attributes pcommon.Map) {
	last := r.last()
	putID(attributes, contract.RequestID, last.RequestID)
	if last.Type == TypeRequestEnd {
		attributes.PutStr(contract.EndReason, strings.ToValidUTF8(string(last.Reason), "\uFFFD")) // it can't be bytes
		if r.options.Numbered {
			counts := attributes.PutEmptySlice(contract.ChunkCounts)
			for _, n := range r.counts {
				counts.AppendEmpty().SetInt(int64(n))
			}
		}
		return
	}
	if r.options.Numbered {
		attributes.PutInt(contract.ChunkIndex, int64(r.index))
	}
	putID(attributes, contract.DisaggRequestID, last.DisaggRequestID)
	attributes.PutInt(contract.OutputIndex, last.OutputIndex)
	attributes.PutBool(contract.IsFinal, last.IsFinal)
	attributes.PutBool(contract.Aborted, last.Aborted)
	attributes.PutBool(contract.Streaming, last.Streaming)
	if r.options.FullText == EveryChunk || r.options.FullText == FinalChunk && last.IsFinal {
		putFullText(attributes, string(last.Text))
	}
	r.putTokenIDs(attributes)
	r.putFrames(attributes)
}

// putID puts an id as the stream has it; null as a value that is none, which is not the same as no attribute.
func putID(attributes pcommon.Map, key string, id ID) {
	if id.isNull() {
		attributes.PutEmpty(key)
		return
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil {
		attributes.PutInt(key, n)
		return
	}
	var s string
	if json.Unmarshal([]byte(id), &s) != nil {
		s = string(id)
	}
	attributes.PutStr(key, s)
}

// putFullText puts a full text, as bytes where it is empty: an empty string would be none.
func putFullText(attributes pcommon.Map, text string) {
	if text == "" {
		attributes.PutEmptyBytes(contract.Text)
		return
	}
	attr.SetText(attributes.PutEmpty(contract.Text), text)
}

func (r Record) putTokenIDs(attributes pcommon.Map) {
	if r.options.Form == Packed {
		var packed []byte
		for _, e := range r.events {
			for _, id := range e.TokenIDsDiff {
				packed = binary.LittleEndian.AppendUint32(packed, id)
			}
		}
		attributes.PutEmptyBytes(contract.TokenIDsDiff).FromRaw(packed)
		return
	}
	ids := attributes.PutEmptySlice(contract.TokenIDsDiff)
	for _, e := range r.events {
		for _, id := range e.TokenIDsDiff {
			ids.AppendEmpty().SetInt(int64(id))
		}
	}
}

func (r Record) putFrames(attributes pcommon.Map) {
	switch r.options.Form {
	case Array:
		frames := attributes.PutEmptySlice(contract.TextDiff)
		for _, e := range r.events {
			attr.SetText(frames.AppendEmpty(), string(e.TextDiff))
		}
		ages := attributes.PutEmptySlice(contract.FrameAges)
		for _, e := range r.events {
			ages.AppendEmpty().SetInt(int64(r.age(e)))
		}
	case Packed:
		var text string
		var lengths, ages []byte
		for _, e := range r.events {
			text += string(e.TextDiff)
			lengths = binary.LittleEndian.AppendUint32(lengths, uint32(len(e.TextDiff)))
			ages = binary.LittleEndian.AppendUint32(ages, r.age(e))
		}
		attr.SetText(attributes.PutEmpty(contract.TextDiff), text)
		attributes.PutEmptyBytes(contract.FrameLengths).FromRaw(lengths)
		attributes.PutEmptyBytes(contract.FrameAges).FromRaw(ages)
	default:
		attr.SetText(attributes.PutEmpty(contract.TextDiff), string(r.events[0].TextDiff))
	}
}

// age is how long before the record's time the event was, in microseconds as lines have them.
func (r Record) age(e Event) uint32 { return uint32(micros(r.Time()) - micros(e.Time)) }

// traceID makes a trace of each request.
func traceID(id ID) pcommon.TraceID {
	h := fnv.New128a()
	_, _ = h.Write([]byte(id))
	return pcommon.TraceID(h.Sum(nil))
}

func spanID(at, i uint64) (s pcommon.SpanID) {
	binary.BigEndian.PutUint64(s[:], at+i+1)
	return s
}
