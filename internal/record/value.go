package record

import (
	"encoding/base64"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// appendValue appends a value as JSON: bytes in base64, as OTLP has them, and a number that JSON has none for as a string.
func appendValue(dst []byte, v pcommon.Value) []byte {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return appendString(dst, v.Str())
	case pcommon.ValueTypeInt:
		return strconv.AppendInt(dst, v.Int(), 10)
	case pcommon.ValueTypeDouble:
		return appendDouble(dst, v.Double())
	case pcommon.ValueTypeBool:
		return strconv.AppendBool(dst, v.Bool())
	case pcommon.ValueTypeBytes:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes().AsRaw()), '"')
	case pcommon.ValueTypeMap:
		return appendObject(dst, v.Map().All())
	case pcommon.ValueTypeSlice:
		return appendArray(dst, v.Slice())
	default:
		return append(dst, "null"...)
	}
}

func appendDouble(dst []byte, d float64) []byte {
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return appendString(dst, strconv.FormatFloat(d, 'g', -1, 64))
	}
	number, _ := json.Marshal(d) // fails only for those above
	return append(dst, number...)
}

func appendArray(dst []byte, array pcommon.Slice) []byte {
	dst = append(dst, '[')
	for i, element := range array.All() {
		dst = appendValue(appendComma(dst, i), element)
	}
	return append(dst, ']')
}

// appendObject appends an object, its keys in order. Of several with one key, which OTLP does not rule out, the last counts.
func appendObject(dst []byte, entries iter.Seq2[string, pcommon.Value]) []byte {
	type entry struct {
		key   string
		value pcommon.Value
	}
	var sorted []entry
	for key, value := range entries {
		sorted = append(sorted, entry{key, value})
	}
	slices.SortStableFunc(sorted, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	first := len(dst)
	for i, e := range sorted {
		if i+1 < len(sorted) && sorted[i+1].key == e.key {
			continue
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, e.key), ':')
		dst = appendValue(dst, e.value)
	}
	return append(dst, '}')
}
