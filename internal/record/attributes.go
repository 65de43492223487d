package record

import (
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/attr"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// numAttributes is how many Put puts at the most.
const numAttributes = 18

// Form is how a record's frames and token ids are attributes.
type Form uint8

// The forms.
const (
	Arrays Form = iota // an element for each, which everybody can read
	// Packed is for who reads records as Reader does: the frames are one string, and their lengths and the token ids bytes,
	// little-endian uint32. In the Collector's memory an element of an array is an allocation, and a packed one 4 bytes.
	Packed
)

// Put puts the record's keys into the attributes of its event. Text that is not valid UTF-8 goes as bytes. The values
// share the record's strings.
func (r *Record) Put(attributes pcommon.Map, form Form) {
	attributes.EnsureCapacity(attributes.Len() + numAttributes)
	attributes.PutStr(contract.RequestID, r.RequestID)
	if r.DisaggRequestID != "" {
		attributes.PutStr(contract.DisaggRequestID, r.DisaggRequestID)
	}
	attributes.PutInt(contract.OutputIndex, int64(r.OutputIndex))
	attributes.PutStr(contract.StartedAt, string(AppendTime(nil, r.StartedAt)))
	attributes.PutBool(contract.Streaming, r.Streaming)
	attributes.PutBool(contract.Aborted, r.Aborted)
	attributes.PutBool(contract.Partial, r.Partial)
	if r.HasEndReason {
		attr.SetText(attributes.PutEmpty(contract.EndReason), r.EndReason)
	}
	r.textSetter()(attributes.PutEmpty(contract.Text), r.Text)
	attributes.PutBool(contract.FramesConsistent, r.FramesConsistent)
	if form == Packed {
		r.putPacked(attributes)
	} else {
		r.putArrays(attributes)
	}
	attributes.PutInt(contract.NumOutputTokens, int64(len(r.TokenIDs)))
	r.putDelivery(attributes)
}

// textSetter sets a value to a text of the record.
func (r *Record) textSetter() func(pcommon.Value, string) {
	if r.ValidUTF8 {
		return pcommon.Value.SetStr
	}
	return attr.SetText
}

func (r *Record) putArrays(attributes pcommon.Map) {
	setText := r.textSetter()
	frames := attributes.PutEmptySlice(contract.Frames)
	frames.EnsureCapacity(len(r.Frames))
	for _, frame := range r.Frames {
		setText(frames.AppendEmpty(), frame)
	}
	ids := attributes.PutEmptySlice(contract.TokenIDs)
	ids.EnsureCapacity(len(r.TokenIDs))
	for _, id := range r.TokenIDs {
		ids.AppendEmpty().SetInt(int64(id))
	}
}

func (r *Record) putPacked(attributes pcommon.Map) {
	joined := r.Text
	if !isCutAnywhere(r.Text, r.Frames) {
		joined = strings.Join(r.Frames, "")
	}
	r.textSetter()(attributes.PutEmpty(contract.Frames), joined)
	putNumbers(attributes, contract.FrameLengths, r.Frames, func(frame string) uint32 { return uint32(len(frame)) })
	putNumbers(attributes, contract.TokenIDs, r.TokenIDs, itself)
}

func (r *Record) putDelivery(attributes pcommon.Map) {
	putCount(attributes, contract.Chunks, r.Chunks)
	putCount(attributes, contract.MissingChunks, r.MissingChunks)
	putCount(attributes, contract.DuplicateChunks, r.DuplicateChunks)
	if r.FrameTimes != nil {
		putNumbers(attributes, contract.FrameTimes, r.FrameTimes, itself)
	}
}

func putCount(attributes pcommon.Map, key string, n Count) {
	if n.Known {
		attributes.PutInt(key, int64(n.Value))
	}
}

// putNumbers puts the packed form of the numbers that a list stands for: little-endian uint32.
func putNumbers[E any](attributes pcommon.Map, key string, list []E, number func(E) uint32) {
	packed := attributes.PutEmptyBytes(key)
	packed.EnsureCapacity(4 * len(list))
	for _, e := range list {
		n := number(e)
		packed.Append(byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
}

func itself(n uint32) uint32 { return n }

// Reader reads records from the attributes of their events, into memory that it uses again for the next one. The zero
// value is ready.
type Reader struct {
	// Include has what is read beside the keys that each line has; what is not asked for may hold anything.
	Include Include

	record        Record
	hasText       bool
	hasConsistent bool
	frameTimes    []uint32 // as scratch
	lengths       []uint32 // the same
	packedFrames  string
	isArray       bool // the frames are an array
	isPacked      bool // they are one string, that
	hasLengths    bool
}

// Read returns the record with these attributes, good until the next Read. startedAt and finishedAt are the times of its
// event, in nanoseconds since 1970; the attribute of the start goes before. An error says that the record is malformed, and
// in which attribute.
func (d *Reader) Read(attributes pcommon.Map, startedAt, finishedAt uint64) (*Record, error) {
	r := &d.record
	if r.FrameTimes != nil {
		d.frameTimes = r.FrameTimes[:0]
	}
	*r = Record{StartedAt: startedAt, FinishedAt: finishedAt, Frames: r.Frames[:0], TokenIDs: r.TokenIDs[:0]}
	d.hasText, d.hasConsistent = false, false
	d.packedFrames, d.isArray, d.isPacked, d.lengths, d.hasLengths = "", false, false, d.lengths[:0], false
	for key, value := range attributes.All() {
		if err := d.attribute(key, value); err != nil {
			return nil, attr.InAttribute(key, err)
		}
	}
	if r.RequestID == "" {
		return nil, attr.InAttribute(contract.RequestID, attr.ErrMissing)
	}
	if !d.hasText {
		return nil, attr.InAttribute(contract.Text, attr.ErrMissing)
	}
	if err := d.cutPacked(); err != nil {
		return nil, err
	}
	if !d.hasConsistent {
		r.FramesConsistent = AddUp(r.Frames, r.Text)
	}
	return r, nil
}

// cutPacked cuts frames that are one string.
func (d *Reader) cutPacked() (err error) {
	r := &d.record
	switch {
	case d.isPacked && !d.hasLengths:
		return attr.InAttribute(contract.Frames, attr.ErrType)
	case !d.hasLengths:
		return nil
	case d.isArray:
		return attr.InAttribute(contract.FrameLengths, attr.ErrMismatch)
	}
	d.lengths = slices.DeleteFunc(d.lengths, func(n uint32) bool { return n == 0 })
	if r.Frames, err = attr.AppendCut(r.Frames, d.packedFrames, d.lengths); err != nil {
		return attr.InAttribute(contract.FrameLengths, err)
	}
	return nil
}

// mostKept is the most elements of each kind that a Reader keeps memory for.
const mostKept = 1 << 16

// Release gives up the references to what was read, and memory that was needed for a large record.
func (d *Reader) Release() {
	frames := kept(d.record.Frames)
	clear(frames[:cap(frames)])
	d.record = Record{Frames: frames, TokenIDs: kept(d.record.TokenIDs)}
	d.lengths, d.frameTimes, d.packedFrames = kept(d.lengths), kept(d.frameTimes), ""
}

// kept returns the memory of a list for the next one, unless it is too much.
func kept[E any](list []E) []E {
	if cap(list) > mostKept {
		return nil
	}
	return list[:0]
}

func (d *Reader) attribute(key string, v pcommon.Value) (err error) {
	if attr.Absent(v) && (v.Type() == pcommon.ValueTypeEmpty || !mayBeEmpty(key)) {
		return nil
	}
	r := &d.record
	switch key {
	case contract.RequestID:
		r.RequestID, err = attr.ID(v)
	case contract.DisaggRequestID:
		r.DisaggRequestID, err = attr.ID(v)
	case contract.OutputIndex:
		r.OutputIndex, err = attr.Index(v)
	case contract.StartedAt:
		r.StartedAt, err = instant(v)
	case contract.Streaming:
		r.Streaming, err = attr.Bool(v)
	case contract.Aborted:
		r.Aborted, err = attr.Bool(v)
	case contract.Partial:
		r.Partial, err = attr.Bool(v)
	case contract.EndReason:
		r.HasEndReason = true
		r.EndReason, err = attr.Text(v)
	case contract.Text:
		d.hasText = true
		r.Text, err = attr.Text(v)
	case contract.Frames:
		err = d.frames(v)
	case contract.FrameLengths:
		d.hasLengths = true
		d.lengths, err = attr.AppendUint32s(d.lengths, v, contract.MaxIndex)
	case contract.FramesConsistent:
		d.hasConsistent = true
		r.FramesConsistent, err = attr.Bool(v)
	case contract.TokenIDs:
		r.TokenIDs, err = attr.AppendUint32s(r.TokenIDs, v, contract.MaxTokenID)
	default:
		err = d.deliveryAttribute(key, v)
	}
	return err
}

func (d *Reader) deliveryAttribute(key string, v pcommon.Value) (err error) {
	r := &d.record
	switch {
	case key == contract.Chunks && d.Include.Delivery:
		r.Chunks, err = count(v)
	case key == contract.MissingChunks && d.Include.Delivery:
		r.MissingChunks, err = count(v)
	case key == contract.DuplicateChunks && d.Include.Delivery:
		r.DuplicateChunks, err = count(v)
	case key == contract.FrameTimes && d.Include.FrameTimes:
		if d.frameTimes == nil {
			d.frameTimes = []uint32{} // none are not the same as nobody kept them
		}
		r.FrameTimes, err = attr.AppendUint32s(d.frameTimes, v, math.MaxUint32)
	}
	return err
}

func count(v pcommon.Value) (Count, error) {
	n, err := attr.Index(v)
	return CountOf(n), err
}

// mayBeEmpty reports whether the empty string is a value of the key's, and not the want of one.
func mayBeEmpty(key string) bool { return key == contract.Text || key == contract.EndReason }

func (d *Reader) frames(v pcommon.Value) (err error) {
	if d.isArray = v.Type() == pcommon.ValueTypeSlice; d.isArray {
		d.record.Frames, err = appendFrames(d.record.Frames, v.Slice())
		return err
	}
	d.isPacked = true
	d.packedFrames, err = attr.Text(v)
	return err
}

func appendFrames(dst []string, array pcommon.Slice) ([]string, error) {
	for _, element := range array.All() {
		frame, err := attr.Text(element)
		if err != nil {
			return dst, err
		}
		if frame != "" {
			dst = append(dst, frame)
		}
	}
	return dst, nil
}

// instant reads a time: as the line has it, or in nanoseconds since 1970.
func instant(v pcommon.Value) (uint64, error) {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return uint64(v.Int()), nil
	case pcommon.ValueTypeStr:
		return parseTime(v.Str())
	default:
		return 0, attr.ErrType
	}
}

func parseTime(s string) (uint64, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Before(epoch) || t.After(lastInstant) {
		return 0, attr.ErrRange
	}
	return uint64(t.Unix())*uint64(time.Second) + uint64(t.Nanosecond()), nil
}

// What unsigned nanoseconds reach.
var epoch, lastInstant = utc(0), utc(math.MaxUint64)
