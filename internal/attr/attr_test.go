package attr

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// value makes an attribute value of a Go one: nil has no type.
func value(t testing.TB, raw any) pcommon.Value {
	t.Helper()
	v := pcommon.NewValueEmpty()
	require.NoError(t, v.FromRaw(raw))
	return v
}

// oneOfEach has a value of every type that OTLP knows.
var oneOfEach = map[pcommon.ValueType]any{
	pcommon.ValueTypeEmpty:  nil,
	pcommon.ValueTypeStr:    "s",
	pcommon.ValueTypeInt:    int64(7),
	pcommon.ValueTypeDouble: 7.0,
	pcommon.ValueTypeBool:   true,
	pcommon.ValueTypeMap:    map[string]any{"k": "v"},
	pcommon.ValueTypeSlice:  []any{int64(7)},
	pcommon.ValueTypeBytes:  []byte{7, 0, 0, 0},
}

// TestTypes has for each reader the only types that it takes.
func TestTypes(t *testing.T) {
	for name, reader := range map[string]struct {
		read  func(pcommon.Value) error
		taken []pcommon.ValueType
	}{
		"ID": {
			func(v pcommon.Value) error { _, err := ID(v); return err },
			[]pcommon.ValueType{pcommon.ValueTypeStr, pcommon.ValueTypeInt, pcommon.ValueTypeDouble},
		},
		"Bool": {
			func(v pcommon.Value) error { _, err := Bool(v); return err },
			[]pcommon.ValueType{pcommon.ValueTypeBool},
		},
		"Index": {
			func(v pcommon.Value) error { _, err := Index(v); return err },
			[]pcommon.ValueType{pcommon.ValueTypeInt},
		},
		"Text": {
			func(v pcommon.Value) error { _, err := Text(v); return err },
			[]pcommon.ValueType{pcommon.ValueTypeStr, pcommon.ValueTypeBytes},
		},
		"AppendUint32s": {
			func(v pcommon.Value) error { _, err := AppendUint32s(nil, v, contract.MaxTokenID); return err },
			[]pcommon.ValueType{pcommon.ValueTypeSlice, pcommon.ValueTypeBytes},
		},
		"AppendAges": {
			func(v pcommon.Value) error { _, err := AppendAges(nil, v); return err },
			[]pcommon.ValueType{pcommon.ValueTypeSlice, pcommon.ValueTypeBytes},
		},
	} {
		for typ, raw := range oneOfEach {
			t.Run(fmt.Sprintf("%s/%v", name, typ), func(t *testing.T) {
				err := reader.read(value(t, raw))
				if slices.Contains(reader.taken, typ) {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, ErrType)
				}
			})
		}
	}
}

func TestAbsent(t *testing.T) {
	assert.True(t, Absent(value(t, nil)))
	assert.True(t, Absent(value(t, "")))
	for _, present := range []any{" ", "null", int64(0), 0.0, false, []any{}, []byte{}, map[string]any{}} {
		assert.False(t, Absent(value(t, present)), "%T %v", present, present)
	}
}

func TestID(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  any
		want string
		err  error
	}{
		{"a string", "chatcmpl-1", "chatcmpl-1", nil},
		{"an empty string", "", "", nil}, // whether it may be is for the caller
		{"a string of digits keeps its zeros", "007", "007", nil},
		{"a string at the limit", strings.Repeat("x", 256), strings.Repeat("x", 256), nil},
		{"a string over the limit", strings.Repeat("x", 257), "", ErrTooLong},
		{"the limit is in bytes", strings.Repeat("é", 129), "", ErrTooLong},
		{"zero", int64(0), "0", nil},
		{"a negative int", int64(-5), "-5", nil},
		{"the largest int", int64(math.MaxInt64), "9223372036854775807", nil},
		{"the smallest int", int64(math.MinInt64), "-9223372036854775808", nil},
		{"an integral double", 42.0, "42", nil},
		{"minus zero", math.Copysign(0, -1), "0", nil},
		{"a negative double", -42.0, "-42", nil},
		{"a double in decimal, without an exponent", 1e15, "1000000000000000", nil},
		{"the largest exact double", float64(1<<53 - 1), "9007199254740991", nil},
		{"a double that may stand for two ints", float64(1 << 53), "", ErrRange},
		{"the same below zero", -float64(1 << 53), "", ErrRange},
		{"a fraction", 1.5, "", ErrRange},
		{"the smallest fraction", math.SmallestNonzeroFloat64, "", ErrRange},
		{"infinity", math.Inf(1), "", ErrRange},
		{"minus infinity", math.Inf(-1), "", ErrRange},
		{"not a number", math.NaN(), "", ErrRange},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ID(value(t, test.raw))
			assert.ErrorIs(t, err, test.err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestBool(t *testing.T) {
	for _, want := range []bool{false, true} {
		got, err := Bool(value(t, want))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestIndex(t *testing.T) {
	for _, test := range []struct {
		raw  int64
		want uint32
		err  error
	}{
		{0, 0, nil},
		{1, 1, nil},
		{math.MaxInt32, math.MaxInt32, nil},
		{math.MaxInt32 + 1, 0, ErrRange},
		{math.MaxInt64, 0, ErrRange},
		{1 << 32, 0, ErrRange}, // not 0, whatever it would be in 32 bits
		{-1, 0, ErrRange},
		{math.MinInt64, 0, ErrRange},
	} {
		got, err := Index(value(t, test.raw))
		assert.ErrorIs(t, err, test.err, test.raw)
		assert.Equal(t, test.want, got, test.raw)
	}
}

func TestText(t *testing.T) {
	for _, raw := range []any{"", "a", "猫", []byte{}, []byte("a"), []byte("\xed\xa0\xbd"), []byte("a\xffb\x00")} {
		got, err := Text(value(t, raw))
		require.NoError(t, err)
		switch raw := raw.(type) {
		case string:
			assert.Equal(t, raw, got)
		case []byte:
			assert.Equal(t, string(raw), got)
		}
	}
}

// A text made of bytes must not change with them: strings never do.
func TestTextOfBytesIsACopy(t *testing.T) {
	v := value(t, []byte("before"))
	text, err := Text(v)
	require.NoError(t, err)
	v.Bytes().SetAt(0, 'X')
	assert.Equal(t, "before", text)
}

func TestAppendUint32s(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  any
		most uint32
		want []uint32
		err  error
	}{
		{"an empty array", []any{}, math.MaxUint32, nil, nil},
		{"empty bytes", []byte{}, math.MaxUint32, nil, nil},
		{"an array", []any{int64(3), int64(0), int64(7)}, math.MaxUint32, []uint32{3, 0, 7}, nil},
		{"bytes are little-endian", []byte{1, 2, 3, 4, 0xFF, 0, 0, 0}, math.MaxUint32, []uint32{0x04030201, 255}, nil},
		{"the largest token id", []any{int64(math.MaxUint32)}, math.MaxUint32, []uint32{math.MaxUint32}, nil},
		{"the largest packed token id", []byte{255, 255, 255, 255}, math.MaxUint32, []uint32{math.MaxUint32}, nil},
		{"one more", []any{int64(math.MaxUint32) + 1}, math.MaxUint32, nil, ErrRange},
		{"below zero", []any{int64(-1)}, math.MaxUint32, nil, ErrRange},
		{"the largest index", []byte{255, 255, 255, 127}, math.MaxInt32, []uint32{math.MaxInt32}, nil},
		{"one more, packed", []byte{0, 0, 0, 128}, math.MaxInt32, nil, ErrRange},
		{"one more, in an array", []any{int64(math.MaxInt32) + 1}, math.MaxInt32, nil, ErrRange},
		{"a bad one after a good one", []any{int64(1), int64(-1)}, math.MaxUint32, nil, ErrRange},
		{"1 byte", []byte{1}, math.MaxUint32, nil, ErrPacking},
		{"3 bytes", []byte{1, 0, 0}, math.MaxUint32, nil, ErrPacking},
		{"5 bytes", []byte{1, 0, 0, 0, 1}, math.MaxUint32, nil, ErrPacking},
		{"a double in an array", []any{1.0}, math.MaxUint32, nil, ErrType},
		{"a string in an array", []any{"1"}, math.MaxUint32, nil, ErrType},
		{"nothing in an array", []any{nil}, math.MaxUint32, nil, ErrType},
		{"an array in an array", []any{[]any{int64(1)}}, math.MaxUint32, nil, ErrType},
	} {
		t.Run(test.name, func(t *testing.T) {
			const before = 99
			got, err := AppendUint32s([]uint32{before}, value(t, test.raw), test.most)
			require.ErrorIs(t, err, test.err)
			if err == nil {
				assert.Equal(t, append([]uint32{before}, test.want...), got)
			}
			assert.Equal(t, uint32(before), got[0], "what was there before stays, also after an error")
		})
	}
}

func TestAges(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  any
		want []uint64
		err  error
	}{
		{"none in an array", []any{}, nil, nil},
		{"none in bytes", []byte{}, nil, nil},
		{"an array", []any{int64(3), int64(1), int64(0)}, []uint64{3, 1, 0}, nil},
		{"bytes are little-endian", []byte{1, 2, 3, 4, 9, 0, 0, 0}, []uint64{0x04030201, 9}, nil},
		{"the largest, packed", []byte{255, 255, 255, 255}, []uint64{math.MaxUint32}, nil},
		{"larger ones in an array", []any{int64(math.MaxInt64), int64(1 << 32)}, []uint64{math.MaxInt64, 1 << 32}, nil},
		{"the first below 0", []any{int64(-1)}, nil, ErrRange},
		{"the last below 0", []any{int64(5), int64(-1)}, nil, ErrRange},
		{"a double among them", []any{int64(5), 1.0}, nil, ErrType},
		{"nothing among them", []any{nil}, nil, ErrType},
		{"3 bytes", []byte{1, 0, 0}, nil, ErrPacking},
		{"5 bytes", []byte{1, 0, 0, 0, 1}, nil, ErrPacking},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := AppendAges([]uint64{7}, value(t, test.raw))
			require.ErrorIs(t, err, test.err)
			if err == nil {
				assert.Equal(t, append([]uint64{7}, test.want...), got)
			}
		})
	}
}

func TestInAttribute(t *testing.T) {
	err := InAttribute(contract.ChunkIndex, ErrRange)
	assert.EqualError(t, err, "raw_output.chunk_index is out of range")
	assert.ErrorIs(t, err, ErrRange)
	assert.NotErrorIs(t, err, ErrType)
}

// TestErrorsSayNothingOfTheValue reads values that must not come up in a log.
func TestErrorsSayNothingOfTheValue(t *testing.T) {
	const secret = "1357924680"
	for name, read := range map[string]func() error{
		"ID too long":     func() error { _, err := ID(value(t, strings.Repeat(secret, 26))); return err },
		"ID a fraction":   func() error { _, err := ID(value(t, 1357924680.5)); return err },
		"ID of a type":    func() error { _, err := ID(value(t, []any{secret})); return err },
		"Bool":            func() error { _, err := Bool(value(t, secret)); return err },
		"Index":           func() error { _, err := Index(value(t, int64(-1357924680))); return err },
		"Text":            func() error { _, err := Text(value(t, int64(1357924680))); return err },
		"numbers":         func() error { _, err := AppendUint32s(nil, value(t, []any{int64(-1357924680)}), 1); return err },
		"ages":            func() error { _, err := AppendAges(nil, value(t, []any{int64(-1357924680)})); return err },
		"numbers, packed": func() error { _, err := AppendUint32s(nil, value(t, []byte(secret)), 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := read()
			require.Error(t, err)
			for ; err != nil; err = errors.Unwrap(err) {
				assert.NotContains(t, err.Error(), secret)
			}
		})
	}
}

func readOnly(t testing.TB, raw map[string]any) pcommon.Map {
	t.Helper()
	logs := plog.NewLogs()
	attributes := logs.ResourceLogs().AppendEmpty().Resource().Attributes()
	require.NoError(t, attributes.FromRaw(raw))
	logs.MarkReadOnly()
	return attributes
}

// TestReadOnly reads from a batch that others read at the same time.
func TestReadOnly(t *testing.T) {
	shared := readOnly(t, map[string]any{
		"id": "r", "bool": true, "index": int64(1), "text": []byte("t"), "array": []any{int64(1)}, "packed": []byte{1, 0, 0, 0},
	})
	get := func(key string) pcommon.Value {
		v, ok := shared.Get(key)
		require.True(t, ok)
		return v
	}
	_, errID := ID(get("id"))
	_, errBool := Bool(get("bool"))
	_, errIndex := Index(get("index"))
	_, errText := Text(get("text"))
	_, errArray := AppendUint32s(nil, get("array"), 1)
	_, errPacked := AppendUint32s(nil, get("packed"), 1)
	assert.NoError(t, errors.Join(errID, errBool, errIndex, errText, errArray, errPacked))
}

// TestAllocations: what has the right type already is not copied.
func TestAllocations(t *testing.T) {
	text, index, array, packed := value(t, "some text"), value(t, int64(1)), value(t, []any{int64(1), int64(2)}), value(t, []byte{1, 0, 0, 0})
	scratch, ages := make([]uint32, 0, 8), make([]uint64, 0, 8)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = Text(text)
		_, _ = ID(text)
		_, _ = Index(index)
		_, _ = AppendUint32s(scratch, array, contract.MaxTokenID)
		_, _ = AppendAges(ages, array)
		_, _ = AppendAges(ages, packed)
	}))
}
