package chunk

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/attr"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// Decoder decodes records into memory that it uses again after Reset. The zero value is ready.
type Decoder struct {
	frames  []string
	numbers []uint32
	ages    []uint64
}

// Times are a record's: of its last chunk, and of its first where the signal tells (a span's start), else 0. Both are
// nanoseconds since 1970.
type Times struct{ First, Last uint64 }

// Reset gives up all that was decoded since the last Reset, and with it the references to the records.
func (d *Decoder) Reset() {
	clear(d.frames)
	d.frames, d.numbers, d.ages = d.frames[:0], d.numbers[:0], d.ages[:0]
}

// parts are the attributes that can only be understood together.
type parts struct {
	textDiff, frameLengths, frameAges          pcommon.Value
	hasTextDiff, hasFrameLengths, hasFrameAges bool
}

// Chunk decodes a chunk record. An error says that it is malformed, and in which attribute.
func (d *Decoder) Chunk(attributes pcommon.Map, times Times) (Chunk, error) {
	c := Chunk{Attributes: attributes, Time: times.Last}
	var p parts
	for key, value := range attributes.All() {
		if err := d.chunkAttribute(&c, &p, key, value); err != nil {
			return Chunk{}, attr.InAttribute(key, err)
		}
	}
	if c.RequestID == "" {
		return Chunk{}, attr.InAttribute(contract.RequestID, attr.ErrMissing)
	}
	if err := d.assignFrames(&c, &p); err != nil {
		return Chunk{}, err
	}
	if c.Numbered && uint64(c.Index)+uint64(len(c.Frames))-1 > contract.MaxIndex {
		return Chunk{}, attr.InAttribute(contract.ChunkIndex, attr.ErrRange)
	}
	if err := d.assignTimes(&c, &p, times.First); err != nil {
		return Chunk{}, attr.InAttribute(contract.FrameAges, err)
	}
	return c, nil
}

func (d *Decoder) chunkAttribute(c *Chunk, p *parts, key string, v pcommon.Value) (err error) {
	if attr.Absent(v) {
		switch {
		case key == contract.DisaggRequestID:
			c.DisaggRequestID, c.HasDisaggRequestID = "", true
		case IsOther(key):
			c.Others++
		}
		return nil
	}
	switch key {
	case contract.RequestID:
		c.RequestID, err = attr.ID(v)
	case contract.DisaggRequestID:
		c.HasDisaggRequestID = true
		c.DisaggRequestID, err = attr.ID(v)
	case contract.OutputIndex:
		c.OutputIndex, err = attr.Index(v)
	case contract.TextDiff:
		p.textDiff, p.hasTextDiff = v, true
	case contract.FrameLengths:
		p.frameLengths, p.hasFrameLengths = v, true
	case contract.FrameAges:
		p.frameAges, p.hasFrameAges = v, true
	case contract.TokenIDsDiff:
		c.TokenIDs, err = d.numbersOf(v, contract.MaxTokenID)
	case contract.Text: // the empty string was absent; empty bytes are an empty text
		c.HasText = true
		c.Text, err = attr.Text(v)
	case contract.IsFinal:
		c.IsFinal, err = attr.Bool(v)
	case contract.Aborted:
		c.Aborted, err = flag(v)
	case contract.Streaming:
		c.Streaming, err = flag(v)
	case contract.ChunkIndex:
		c.Numbered = true
		c.Index, err = attr.Index(v)
	case contract.EmitterDropped:
		c.EmitterDropped, err = attr.Index(v)
	default:
		if IsOther(key) {
			c.Others++
		}
	}
	return err
}

// assignFrames cuts the record's text into the chunks in it.
func (d *Decoder) assignFrames(c *Chunk, p *parts) (err error) {
	isArray := p.hasTextDiff && p.textDiff.Type() == pcommon.ValueTypeSlice
	switch {
	case isArray && p.hasFrameLengths:
		return attr.InAttribute(contract.FrameLengths, attr.ErrMismatch)
	case isArray:
		if c.Frames, err = d.framesOfArray(p.textDiff.Slice()); err != nil {
			return attr.InAttribute(contract.TextDiff, err)
		}
		return nil
	}
	text := ""
	if p.hasTextDiff {
		if text, err = attr.Text(p.textDiff); err != nil {
			return attr.InAttribute(contract.TextDiff, err)
		}
	}
	if !p.hasFrameLengths {
		c.Frames = d.oneFrame(text)
		return nil
	}
	if c.Frames, err = d.framesOfPacked(text, p.frameLengths); err != nil {
		return attr.InAttribute(contract.FrameLengths, err)
	}
	return nil
}

func (d *Decoder) oneFrame(text string) []string {
	from := len(d.frames)
	d.frames = append(d.frames, text)
	return d.framesSince(from)
}

func (d *Decoder) framesOfArray(array pcommon.Slice) ([]string, error) {
	if array.Len() == 0 {
		return d.oneFrame(""), nil
	}
	from := len(d.frames)
	for i := range array.Len() {
		text, err := attr.Text(array.At(i))
		if err != nil {
			return nil, err
		}
		d.frames = append(d.frames, text)
	}
	return d.framesSince(from), nil
}

func (d *Decoder) framesOfPacked(text string, frameLengths pcommon.Value) ([]string, error) {
	lengths, err := d.numbersOf(frameLengths, contract.MaxIndex)
	if err != nil {
		return nil, err
	}
	if len(lengths) == 0 {
		lengths = append(lengths, 0) // empty frame lengths are one chunk without text
	}
	from := len(d.frames)
	if d.frames, err = attr.AppendCut(d.frames, text, lengths); err != nil {
		return nil, err
	}
	return d.framesSince(from), nil
}

// framesSince returns the frames decoded since from; its capacity ends there, so that nobody's append reaches the next ones.
func (d *Decoder) framesSince(from int) []string { return d.frames[from:len(d.frames):len(d.frames)] }

// assignTimes finds the times of the record's chunks: the ages tell them, and a span starts at its first one.
func (d *Decoder) assignTimes(c *Chunk, p *parts, first uint64) (err error) {
	c.StartedAt = c.Time
	if p.hasFrameAges {
		if c.Ages, err = d.agesOf(p.frameAges); err != nil {
			return err
		}
		if len(c.Ages) != len(c.Frames) {
			return attr.ErrMismatch
		}
		c.StartedAt = before(c.Time, c.Ages[0])
	}
	if first != 0 && first <= c.Time {
		c.StartedAt = first
	}
	return nil
}

func (d *Decoder) agesOf(v pcommon.Value) (ages []uint64, err error) {
	from := len(d.ages)
	d.ages, err = attr.AppendAges(d.ages, v)
	return d.ages[from:len(d.ages):len(d.ages)], err
}

// before is the time that many microseconds before another, and no earlier than 1970.
func before(at, micros uint64) uint64 {
	if micros > at/uint64(time.Microsecond) {
		return 0
	}
	return at - micros*uint64(time.Microsecond)
}

// End decodes a request end. An error says that it is malformed, and in which attribute.
func (d *Decoder) End(attributes pcommon.Map, at uint64) (End, error) {
	e := End{Time: at}
	for key, value := range attributes.All() {
		if err := d.endAttribute(&e, key, value); err != nil {
			return End{}, attr.InAttribute(key, err)
		}
	}
	if e.RequestID == "" {
		return End{}, attr.InAttribute(contract.RequestID, attr.ErrMissing)
	}
	return e, nil
}

func (d *Decoder) endAttribute(e *End, key string, v pcommon.Value) (err error) {
	if attr.Absent(v) {
		return nil
	}
	switch key {
	case contract.RequestID:
		e.RequestID, err = attr.ID(v)
	case contract.EndReason:
		if v.Type() != pcommon.ValueTypeStr {
			return attr.ErrType
		}
		e.Reason = v.Str()
	case contract.ChunkCounts:
		if v.Type() != pcommon.ValueTypeSlice {
			return attr.ErrType
		}
		e.ChunkCounts, err = d.numbersOf(v, contract.MaxIndex)
	}
	return err
}

func (d *Decoder) numbersOf(v pcommon.Value, most uint32) (numbers []uint32, err error) {
	from := len(d.numbers)
	d.numbers, err = attr.AppendUint32s(d.numbers, v, most)
	return d.numbers[from:len(d.numbers):len(d.numbers)], err
}

func flag(v pcommon.Value) (Flag, error) {
	b, err := attr.Bool(v)
	return flagOf(b), err
}
