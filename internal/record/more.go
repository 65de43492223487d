package record

import (
	"encoding/hex"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/attr"
	"github.com/otel-rawoutput/rawoutput/internal/chunk"
)

// Include says which keys a line has after those that each line has, in this order.
type Include struct {
	Delivery   bool // chunks, missing_chunks, duplicate_chunks
	Resource   bool // resource
	Trace      bool // trace_id, span_id
	FrameTimes bool // frame_times
	Attributes bool // attributes
}

// Surroundings are what a line can tell that is not on the record itself.
type Surroundings struct {
	Resource   pcommon.Map // of the record's resource
	TraceID    pcommon.TraceID
	SpanID     pcommon.SpanID // of the span that the output's chunks were in
	Attributes pcommon.Map    // of the record's event
}

// AppendLineWith appends the record's line with more keys than each line has. What is not known is null.
func (e *Encoder) AppendLineWith(dst []byte, r *Record, include Include, around *Surroundings) []byte {
	dst = e.appendKeys(dst, r)
	if include.Delivery {
		dst = appendCount(append(dst, `,"chunks":`...), r.Chunks)
		dst = appendCount(append(dst, `,"missing_chunks":`...), r.MissingChunks)
		dst = appendCount(append(dst, `,"duplicate_chunks":`...), r.DuplicateChunks)
	}
	if include.Resource {
		dst = appendObject(append(dst, `,"resource":`...), attr.Identifying(around.Resource))
	}
	if include.Trace {
		dst = appendID(append(dst, `,"trace_id":`...), around.TraceID[:], around.TraceID.IsEmpty())
		dst = appendID(append(dst, `,"span_id":`...), around.SpanID[:], around.SpanID.IsEmpty())
	}
	if include.FrameTimes {
		dst = appendFrameTimes(append(dst, `,"frame_times":`...), r.FrameTimes)
	}
	if include.Attributes {
		dst = appendObject(append(dst, `,"attributes":`...), others(around.Attributes))
	}
	return append(dst, "}\n"...)
}

func appendCount(dst []byte, n Count) []byte {
	if !n.Known {
		return append(dst, "null"...)
	}
	return strconv.AppendUint(dst, uint64(n.Value), 10)
}

func appendID(dst []byte, id []byte, empty bool) []byte {
	if empty {
		return append(dst, "null"...)
	}
	return append(hex.AppendEncode(append(dst, '"'), id), '"')
}

func appendFrameTimes(dst []byte, times []uint32) []byte {
	if times == nil {
		return append(dst, "null"...)
	}
	return appendNumbers(dst, times)
}

// others are the attributes of the record's event that are not the contract's.
func others(attributes pcommon.Map) func(yield func(string, pcommon.Value) bool) {
	return func(yield func(string, pcommon.Value) bool) {
		for key, value := range attributes.All() {
			if chunk.IsOther(key) && !yield(key, value) {
				return
			}
		}
	}
}
