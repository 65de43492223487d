package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/layout"
	"github.com/otel-rawoutput/rawoutput/internal/record/recordtest"
)

const second = 1_000_000_000

// t0 is 2026-11-04T05:06:07 UTC.
const t0 = 1793768767 * second

// full is a record with something in every field.
func full() Record {
	return Record{
		RequestID: "r", DisaggRequestID: "d", OutputIndex: 1, StartedAt: t0 + 123456789, FinishedAt: t0 + 2*second,
		Streaming: true, Aborted: true, Partial: true, EndReason: "error", HasEndReason: true,
		Text: "ab", Frames: []string{"a", "b"}, FramesConsistent: true, TokenIDs: []uint32{0, 7, math.MaxUint32},
	}
}

func TestAppendLine(t *testing.T) {
	for _, test := range []struct {
		name   string
		record Record
		want   string
	}{
		{
			"everything", full(),
			`{"event":"raw_output","request_id":"r","disagg_request_id":"d","output_index":1,` +
				`"started_at":"2026-11-04T05:06:07.123456+00:00","finished_at":"2026-11-04T05:06:09+00:00",` +
				`"streaming":true,"aborted":true,"partial":true,"end_reason":"error","text":"ab","frames":["a","b"],` +
				`"frames_consistent":true,"token_ids":[0,7,4294967295],"num_output_tokens":3}`,
		},
		{
			"nothing", Record{},
			`{"event":"raw_output","request_id":"","disagg_request_id":null,"output_index":0,` +
				`"started_at":"1970-01-01T00:00:00+00:00","finished_at":"1970-01-01T00:00:00+00:00",` +
				`"streaming":false,"aborted":false,"partial":false,"end_reason":null,"text":"","frames":[],` +
				`"frames_consistent":false,"token_ids":[],"num_output_tokens":0}`,
		},
		{
			"an empty end reason is not null", Record{HasEndReason: true, OutputIndex: math.MaxInt32, TokenIDs: []uint32{1}},
			`{"event":"raw_output","request_id":"","disagg_request_id":null,"output_index":2147483647,` +
				`"started_at":"1970-01-01T00:00:00+00:00","finished_at":"1970-01-01T00:00:00+00:00",` +
				`"streaming":false,"aborted":false,"partial":false,"end_reason":"","text":"","frames":[],` +
				`"frames_consistent":false,"token_ids":[1],"num_output_tokens":1}`,
		},
		{
			"every string is escaped",
			Record{
				RequestID: `"r"`, DisaggRequestID: "\\", EndReason: "\n", HasEndReason: true,
				Text: "\x00\xff", Frames: []string{"\x01", "\xed\xa0\xbd"},
			},
			`{"event":"raw_output","request_id":"\"r\"","disagg_request_id":"\\","output_index":0,` +
				`"started_at":"1970-01-01T00:00:00+00:00","finished_at":"1970-01-01T00:00:00+00:00",` +
				`"streaming":false,"aborted":false,"partial":false,"end_reason":"\n","text":"\u0000` + "\uFFFD" + `","frames":["\u0001","\ud83d"],` +
				`"frames_consistent":false,"token_ids":[],"num_output_tokens":0}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := new(Encoder).AppendLine([]byte("before"), &test.record)
			assert.Equal(t, "before"+test.want+"\n", string(got))
		})
	}
}

func decode(t testing.TB, line []byte) (l recordtest.Line) {
	t.Helper()
	require.True(t, utf8.Valid(line), "valid UTF-8")
	require.Equal(t, 1, bytes.Count(line, []byte("\n")), "one line")
	require.True(t, bytes.HasSuffix(line, []byte("}\n")))
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&l))
	return l
}

func TestLineAgainstEncodingJSON(t *testing.T) {
	r := full()
	r.Text, r.Frames = "a\"b\\c\n猫😀", []string{"a\"b", "\\c\n", "猫😀"}
	line := new(Encoder).AppendLine(nil, &r)
	got := decode(t, line)
	assert.Equal(t, recordtest.Line{
		Event: "raw_output", RequestID: "r", DisaggRequestID: &r.DisaggRequestID, OutputIndex: 1,
		StartedAt: "2026-11-04T05:06:07.123456+00:00", FinishedAt: "2026-11-04T05:06:09+00:00",
		Streaming: true, Aborted: true, Partial: true, EndReason: &r.EndReason,
		Text: r.Text, Frames: r.Frames, FramesConsistent: true, TokenIDs: r.TokenIDs, NumOutputTokens: 3,
	}, got)
	assert.Equal(t, encodingJSON(t, got), string(line), "encoding/json gives the same bytes")
}

// encodingJSON is what encoding/json writes, newline included.
func encodingJSON(t testing.TB, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(v))
	return b.String()
}

// likePython is how Python's json.dumps(ensure_ascii=False) writes a string that is valid UTF-8. That is encoding/json,
// but for four characters: it escapes two that Python leaves, and how it writes two others differs by its version.
func likePython(t testing.TB, s string) string {
	for _, special := range [][2]string{{"\b", `\b`}, {"\f", `\f`}, {"\u2028", "\u2028"}, {"\u2029", "\u2029"}} {
		if before, after, found := strings.Cut(s, special[0]); found {
			return strings.TrimSuffix(likePython(t, before), `"`) + special[1] + strings.TrimPrefix(likePython(t, after), `"`)
		}
	}
	return strings.TrimSuffix(encodingJSON(t, s), "\n")
}

func TestStrings(t *testing.T) {
	for _, test := range []struct{ name, s, want string }{
		{"empty", "", `""`},
		{"plain", "abc", `"abc"`},
		{"quote and backslash", `"\`, `"\"\\"`},
		{"short escapes", "\b\f\n\r\t", `"\b\f\n\r\t"`},
		{"other controls", "\x00\x01\x0b\x0e\x1f", `"\u0000\u0001\u000b\u000e\u001f"`},
		{"delete is raw", "\x7f", "\"\x7f\""},
		{"what HTML minds is raw", "</&>'", `"</&>'"`},
		{"what JavaScript minds is raw", "\u2028\u2029", "\"\u2028\u2029\""},
		{"a literal escape stays literal", `\u2028\ud83d\n`, `"\\u2028\\ud83d\\n"`},
		{"letters of all lengths", "aé猫😀", `"aé猫😀"`},
		{"the replacement character itself", "\uFFFD", "\"\uFFFD\""},
		{"the last character", "\U0010FFFF", "\"\U0010FFFF\""},
		{"next to the surrogates", "\uD7FF\uE000", "\"\uD7FF\uE000\""},
		{"an escape at both ends", "\na\n", `"\na\n"`},
		{"a byte order mark", "\uFEFF", "\"\uFEFF\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, string(appendString(nil, test.s)))
			assert.Equal(t, likePython(t, test.s), test.want, "encoding/json agrees")
		})
	}
}

func TestEachControl(t *testing.T) {
	short := map[byte]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	for c := range byte(0x20) {
		want, ok := short[c]
		if !ok {
			want = fmt.Sprintf(`\u%04x`, c)
		}
		assert.Equal(t, `"`+want+`"`, string(appendString(nil, string(rune(c)))))
	}
}

// Eight bytes are looked at together: what must be escaped must be found at each place among all neighbours, and nothing else.
func TestEachByteAtEachPlace(t *testing.T) {
	for _, neighbour := range []string{"x", "\u0080", "\u07ff"} {
		around := strings.Repeat(neighbour, 17)
		for c := range byte(0x80) {
			for at := 0; at <= len(around); at += len(neighbour) {
				s := around[:at] + string(rune(c)) + around[at:]
				if got := string(appendString(nil, s)); got != likePython(t, s) {
					t.Fatalf("%q became %s", s, got)
				}
			}
		}
	}
}

// TestFramesAtRandom: what is copied from the text is what each frame would have become by itself.
func TestFramesAtRandom(t *testing.T) {
	pieces := []string{"a", "plain text of some length", "\x01", `"`, "\n\n", "é", "猫", "😀", high, low, "\xff"}
	random := rand.New(rand.NewPCG(1, 2))
	var e Encoder
	for range 20_000 {
		var r Record
		for range random.IntN(6) {
			r.Frames = append(r.Frames, "")
			for range random.IntN(3) {
				r.Frames[len(r.Frames)-1] += pieces[random.IntN(len(pieces))]
			}
		}
		r.Text = strings.Join(r.Frames, "")
		if random.IntN(4) == 0 {
			r.Text += pieces[random.IntN(len(pieces))]
		}
		want := appendStrings(append(appendString([]byte(`,"text":`), r.Text), `,"frames":`...), r.Frames)
		if !assert.Equal(t, string(want), string(e.appendText(nil, &r))) {
			return
		}
	}
}

// The notes about a text are bounded, whatever is in it.
func TestEncoderKeepsLittle(t *testing.T) {
	var e Encoder
	for _, n := range []int{mostNoted, mostNoted + 1, 1 << 20} {
		r := Record{Text: strings.Repeat("\n", n)}
		r.Frames = []string{r.Text}
		assert.Contains(t, string(e.AppendLine(nil, &r)), strings.Repeat(`\n`, n))
	}
	assert.LessOrEqual(t, cap(e.escapes), 2*mostNoted)
}

func TestStringsThatAreNotUTF8(t *testing.T) {
	const bad = "\uFFFD"
	for _, test := range []struct{ name, s, want string }{
		{"the first half of a pair", "\xed\xa0\xbd", `\ud83d`},
		{"the second half", "\xed\xb8\x80", `\ude00`},
		{"the first surrogate", "\xed\xa0\x80", `\ud800`},
		{"the last surrogate", "\xed\xbf\xbf", `\udfff`},
		{"among text", "a\xed\xa0\xbdb", `a\ud83db`},
		{"next to an escape", "\n\xed\xa0\xbd\"", `\n\ud83d\"`},
		{"halves in the wrong order", "\xed\xb8\x80\xed\xa0\xbd", `\ude00\ud83d`},
		{"a half cut after one byte", "\xed", bad},
		{"a half cut after two", "\xed\xa0", bad + bad},
		{"a half cut after two, and text", "\xed\xa0a", bad + bad + "a"},
		{"a half that goes wrong", "\xed\xa0\xc0", bad + bad + bad},
		{"an invalid byte", "a\xffb", "a" + bad + "b"},
		{"each invalid byte for itself", "\xff\xfe\xc0\x80", bad + bad + bad + bad},
		{"a continuation byte", "\x80", bad},
		{"a cut character", "a\xf0\x9f\x98", "a" + bad + bad + bad},
		{"a cut character before another", "\xe7\x8c猫", bad + bad + "猫"},
		{"an overlong slash", "\xc0\xaf", bad + bad},
		{"beyond Unicode", "\xf4\x90\x80\x80", bad + bad + bad + bad},
		{"beside the replacement character", "\uFFFD\xff\uFFFD", bad + bad + bad},
		{"escapes in what is valid", "\x00\xff\x01\"", `\u0000` + bad + `\u0001\"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := appendString(nil, test.s)
			assert.Equal(t, `"`+test.want+`"`, string(got))
			assert.True(t, json.Valid(got))
			assert.True(t, utf8.Valid(got))
		})
	}
}

func TestAppendTime(t *testing.T) {
	for _, test := range []struct {
		nanos uint64
		want  string
	}{
		{0, "1970-01-01T00:00:00+00:00"},
		{1, "1970-01-01T00:00:00+00:00"},
		{999, "1970-01-01T00:00:00+00:00"}, // cut, and then no fraction
		{1000, "1970-01-01T00:00:00.000001+00:00"},
		{1999, "1970-01-01T00:00:00.000001+00:00"},
		{100_000_000, "1970-01-01T00:00:00.100000+00:00"}, // always six digits
		{999_999_999, "1970-01-01T00:00:00.999999+00:00"}, // not rounded into the next second
		{t0, "2026-11-04T05:06:07+00:00"},
		{t0 + 123_456_789, "2026-11-04T05:06:07.123456+00:00"},
		{1709164800 * second, "2024-02-29T00:00:00+00:00"},
		{math.MaxInt64, "2262-04-11T23:47:16.854775+00:00"},
		{math.MaxInt64 + 1, "2262-04-11T23:47:16.854775+00:00"}, // times are unsigned
		{math.MaxUint64, "2554-07-21T23:34:33.709551+00:00"},
	} {
		assert.Equal(t, "at "+test.want, string(AppendTime([]byte("at "), test.nanos)))
	}
}

func TestAppendHour(t *testing.T) {
	for nanos, want := range map[uint64]string{
		0:                              "1970-01-01T00",
		t0:                             "2026-11-04T05",
		1793768400*second - 1:          "2026-11-04T04",
		1793768400 * second:            "2026-11-04T05",
		1793768400*second + 3600e9 - 1: "2026-11-04T05",
		math.MaxUint64:                 "2554-07-21T23",
	} {
		got := AppendHour(nil, nanos)
		assert.Equal(t, want, string(got))
		assert.Len(t, got, len(layout.HourLayout))
		assert.Equal(t, want, string(AppendTime(nil, nanos)[:len(layout.HourLayout)]), "an hour is the beginning of a time")
	}
}

// Encoding must not allocate where there is room: it runs for each record.
func TestAppendLineAllocatesNothing(t *testing.T) {
	for name, text := range map[string]string{"valid": `plain, "quoted", 猫`, "invalid": "a\xffb\xed\xa0\xbd"} {
		t.Run(name, func(t *testing.T) {
			r := full()
			buffer := make([]byte, 0, 4096)
			var e Encoder
			for _, r.Frames = range [][]string{{text}, {text, text}} {
				r.Text = text
				assert.Zero(t, testing.AllocsPerRun(100, func() { buffer = e.AppendLine(buffer[:0], &r) }))
			}
		})
	}
}

func TestAppendNumbers(t *testing.T) {
	var numbers []uint32
	var want []string
	for power := uint64(1); power <= math.MaxUint32; power *= 10 {
		for _, n := range []uint64{power - 1, power, power + 1, 12 * power, math.MaxUint32 / power} {
			numbers = append(numbers, uint32(n))
			want = append(want, strconv.FormatUint(n&math.MaxUint32, 10))
		}
	}
	assert.Equal(t, "["+strings.Join(want, ",")+"]", string(appendNumbers(nil, numbers)))
}
