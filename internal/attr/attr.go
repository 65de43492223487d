// Package attr reads OpenTelemetry attribute values as the types that the wire contract allows (docs/contract.md,
// section 1), and refuses every other. No error carries a value: attributes hold model output.
package attr // import "github.com/otel-rawoutput/rawoutput/internal/attr"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// What can be wrong with a value. InAttribute adds which one it was.
var (
	ErrMissing  = errors.New("is missing")
	ErrType     = errors.New("has a value of a type that is not allowed")
	ErrRange    = errors.New("is out of range")
	ErrTooLong  = fmt.Errorf("is longer than %d bytes", contract.MaxIDBytes)
	ErrPacking  = errors.New("is packed in a number of bytes that is not a multiple of 4")
	ErrMismatch = errors.New("does not fit the text")
)

// InAttribute says in which attribute err was found.
func InAttribute(key string, err error) error { return &attributeError{key, err} }

type attributeError struct {
	key string
	err error
}

func (e *attributeError) Error() string { return e.key + " " + e.err.Error() }
func (e *attributeError) Unwrap() error { return e.err }

// Absent reports whether v counts as not sent: it has no value, or is the empty string.
func Absent(v pcommon.Value) bool {
	switch v.Type() {
	case pcommon.ValueTypeEmpty:
		return true
	case pcommon.ValueTypeStr:
		return v.Str() == ""
	default:
		return false
	}
}

// ID reads an id: a string, an integer (in decimal), or a double that is integral and below 2^53 in size.
func ID(v pcommon.Value) (string, error) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		if len(v.Str()) > contract.MaxIDBytes {
			return "", ErrTooLong
		}
		return v.Str(), nil
	case pcommon.ValueTypeInt:
		return strconv.FormatInt(v.Int(), 10), nil
	case pcommon.ValueTypeDouble:
		d := v.Double()
		if d != math.Trunc(d) || math.Abs(d) >= 1<<53 {
			return "", ErrRange
		}
		return strconv.FormatInt(int64(d), 10), nil
	default:
		return "", ErrType
	}
}

// Bool reads a boolean.
func Bool(v pcommon.Value) (bool, error) {
	if v.Type() != pcommon.ValueTypeBool {
		return false, ErrType
	}
	return v.Bool(), nil
}

// Index reads an index or a count, 0 to contract.MaxIndex.
func Index(v pcommon.Value) (uint32, error) { return uint32Of(v, contract.MaxIndex) }

// Text reads a string or bytes; the bytes need not be UTF-8.
func Text(v pcommon.Value) (string, error) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return v.Str(), nil
	case pcommon.ValueTypeBytes:
		raw := v.Bytes().AsRaw() // a copy that is ours alone, so that it may become a string without another
		return unsafe.String(unsafe.SliceData(raw), len(raw)), nil
	default:
		return "", ErrType
	}
}

// SetText is the other way round: it sets v to a string, or to bytes where the text is not valid UTF-8.
func SetText(v pcommon.Value, text string) {
	if utf8.ValidString(text) {
		v.SetStr(text)
		return
	}
	v.SetEmptyBytes().FromRaw([]byte(text))
}

// AppendCut cuts a text into pieces of these lengths, in bytes, and appends them. They must add up to it.
func AppendCut(dst []string, text string, lengths []uint32) ([]string, error) {
	for _, n := range lengths {
		if uint64(n) > uint64(len(text)) {
			return dst, ErrMismatch
		}
		dst = append(dst, text[:n])
		text = text[n:]
	}
	if text != "" {
		return dst, ErrMismatch
	}
	return dst, nil
}

// AppendUint32s appends the numbers in v, each from 0 to most: an array of integers, or their packed form, little-endian
// uint32 in bytes.
func AppendUint32s(dst []uint32, v pcommon.Value, most uint32) ([]uint32, error) {
	switch v.Type() {
	case pcommon.ValueTypeSlice:
		return appendArray(dst, v.Slice(), most)
	case pcommon.ValueTypeBytes:
		return appendPacked(dst, v.Bytes().AsRaw(), most)
	default:
		return dst, ErrType
	}
}

func appendArray(dst []uint32, array pcommon.Slice, most uint32) ([]uint32, error) {
	for i := range array.Len() {
		n, err := uint32Of(array.At(i), most)
		if err != nil {
			return dst, err
		}
		dst = append(dst, n)
	}
	return dst, nil
}

func appendPacked(dst []uint32, packed []byte, most uint32) ([]uint32, error) {
	if len(packed)%4 != 0 {
		return dst, ErrPacking
	}
	for ; len(packed) > 0; packed = packed[4:] {
		n := binary.LittleEndian.Uint32(packed)
		if n > most {
			return dst, ErrRange
		}
		dst = append(dst, n)
	}
	return dst, nil
}

// AppendAges appends ages in microseconds: an array of integers from 0, or their packed form. In an array they may be longer
// than the 71 minutes that fit into 32 bits.
func AppendAges(dst []uint64, v pcommon.Value) ([]uint64, error) {
	switch v.Type() {
	case pcommon.ValueTypeSlice:
		return appendAges(dst, v.Slice())
	case pcommon.ValueTypeBytes:
		return appendPackedAges(dst, v.Bytes())
	default:
		return dst, ErrType
	}
}

func appendAges(dst []uint64, array pcommon.Slice) ([]uint64, error) {
	for _, age := range array.All() {
		switch {
		case age.Type() != pcommon.ValueTypeInt:
			return dst, ErrType
		case age.Int() < 0:
			return dst, ErrRange
		}
		dst = append(dst, uint64(age.Int()))
	}
	return dst, nil
}

func appendPackedAges(dst []uint64, packed pcommon.ByteSlice) ([]uint64, error) {
	if packed.Len()%4 != 0 {
		return dst, ErrPacking
	}
	for i := 0; i < packed.Len(); i += 4 {
		age := [4]byte{packed.At(i), packed.At(i + 1), packed.At(i + 2), packed.At(i + 3)}
		dst = append(dst, uint64(binary.LittleEndian.Uint32(age[:])))
	}
	return dst, nil
}

func uint32Of(v pcommon.Value, most uint32) (uint32, error) {
	if v.Type() != pcommon.ValueTypeInt {
		return 0, ErrType
	}
	if n := v.Int(); n < 0 || n > int64(most) {
		return 0, ErrRange
	}
	return uint32(v.Int()), nil
}
