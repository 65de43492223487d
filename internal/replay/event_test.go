package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	aChunk = `{"type":"chunk","time_unix_nano":"1793769153123456000","request_id":30,"disagg_request_id":null,"output_index":1,` +
		`"text_diff":"b","text":"ab","token_ids_diff":[3,4294967295],"is_final":true,"aborted":true,"streaming":true}`
	anEnd = `{"type":"request_end","time_unix_nano":"18446744073709551615","request_id":"r","reason":"error"}`
)

func TestRead(t *testing.T) {
	events, err := Read(strings.NewReader(aChunk + "\n\n  \r\n" + anEnd)) // the last line may lack its end
	require.NoError(t, err)
	assert.Equal(t, []Event{
		{
			Type: TypeChunk, Time: 1793769153123456000, RequestID: "30", DisaggRequestID: "null", OutputIndex: 1, TextDiff: "b", Text: "ab",
			TokenIDsDiff: []uint32{3, 1<<32 - 1}, IsFinal: true, Aborted: true, Streaming: true,
		},
		{Type: TypeRequestEnd, Time: 1<<64 - 1, RequestID: `"r"`, Reason: "error"},
	}, events)
}

func TestReadNothing(t *testing.T) {
	for _, nothing := range []string{"", "\n", " \n\t\n"} {
		events, err := Read(strings.NewReader(nothing))
		assert.NoError(t, err)
		assert.Empty(t, events)
	}
}

func TestReadLongLine(t *testing.T) {
	text := strings.Repeat("x", 1<<20) // more than a bufio.Scanner takes by itself
	events, err := Read(strings.NewReader(`{"type":"chunk","request_id":1,"text":"` + text + `"}`))
	require.NoError(t, err)
	assert.Equal(t, Text(text), events[0].Text)
}

func TestReadErrorsNameTheLine(t *testing.T) {
	for _, test := range []struct{ name, line, message string }{
		{"no JSON", `{"type":`, "unexpected end of JSON input"},
		{"no object", `[]`, "cannot unmarshal array"},
		{"two objects", aChunk + anEnd, "after top-level value"},
		{"no type", `{"request_id":1}`, `type is "": it must be "chunk" or "request_end"`},
		{"another type", `{"type":"end","request_id":1}`, `type is "end"`},
		{"no request id", `{"type":"chunk"}`, "request_id is missing"},
		{"null as request id", `{"type":"chunk","request_id":null}`, "request_id is missing"},
		{"a time that is none", `{"type":"chunk","request_id":1,"time_unix_nano":"now"}`, "uint64"},
		{"a time as number", `{"type":"chunk","request_id":1,"time_unix_nano":1}`, "uint64"},
		{"a time below 0", `{"type":"chunk","request_id":1,"time_unix_nano":"-1"}`, "uint64"},
		{"a token id below 0", `{"type":"chunk","request_id":1,"token_ids_diff":[-1]}`, "token_ids_diff"},
		{"a token id of 2^32", `{"type":"chunk","request_id":1,"token_ids_diff":[4294967296]}`, "token_ids_diff"},
		{"an int as text", `{"type":"chunk","request_id":1,"text_diff":1}`, "cannot unmarshal number"},
		{"a bad escape", `{"type":"chunk","request_id":1,"text":"\ud8"}`, "invalid character"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(aChunk + "\n\n" + test.line + "\n" + anEnd))
			assert.ErrorContains(t, err, "line 3: ", "empty lines count too")
			assert.ErrorContains(t, err, test.message)
		})
	}
}

func TestReadFails(t *testing.T) {
	fault := errors.New("fault")
	_, err := Read(io.MultiReader(strings.NewReader(aChunk+"\n"), iotest.ErrReader(fault)))
	assert.ErrorIs(t, err, fault)
	assert.ErrorContains(t, err, "line 2")
}

func TestReadSample(t *testing.T) {
	sample, err := os.Open("../../testdata/sample.jsonl")
	require.NoError(t, err)
	defer sample.Close()
	events, err := Read(sample)
	require.NoError(t, err)
	assert.NotEmpty(t, events)
}

const (
	high = "\xed\xa0\xbd" // the halves of the pair that makes 😀 in UTF-16, in the three bytes that UTF-8 would have
	low  = "\xed\xb8\x80"
)

func TestText(t *testing.T) {
	for _, test := range []struct{ name, json, want string }{
		{"null", `null`, ""},
		{"empty", `""`, ""},
		{"plain", `"aé猫😀"`, "aé猫😀"},
		{"escapes", `"\"\\\/\b\f\n\r\t\u00e9\u0000"`, "\"\\/\b\f\n\r\té\x00"},
		{"a pair", `"\ud83d\ude00"`, "😀"},
		{"a pair in capitals", `"\uD83D\uDE00"`, "😀"},
		{"the first half", `"\ud83d"`, high},
		{"the second half", `"\ude00"`, low},
		{"in capitals", `"\uD83D\uDe00\uD83d"`, "😀" + high},
		{"the first half before text", `"a\ud83db"`, "a" + high + "b"},
		{"the first half before an escape", `"\ud83d\n"`, high + "\n"},
		{"the first half before another character", `"\ud83d\u0041"`, high + "A"},
		{"halves in the wrong order", `"\ude00\ud83d"`, low + high},
		{"two first halves, and the second", `"\ud83d\ud83d\ude00"`, high + "😀"},
		{"the borders", `"\udfff\ud800\udbff\udc00"`, "\xed\xbf\xbf\xed\xa0\x80\U0010FC00"},
		{"next to the borders", `"\ud7ff\ue000\ud83d"`, "\uD7FF\uE000" + high},
		{"a literal backslash", `"\\ud83d"`, `\ud83d`},
		{"a literal backslash, and the half", `"\\\ud83d"`, `\` + high},
		{"all escapes beside a half", `"\ud83d\"\\\/\b\f\n\r\t\u00e9猫"`, high + "\"\\/\b\f\n\r\té猫"},
		{"U+FFFD beside a half", `"\ud83d\ufffd"`, high + "\uFFFD"},
	} {
		t.Run(test.name, func(t *testing.T) {
			events, err := Read(strings.NewReader(fmt.Sprintf(`{"type":"chunk","request_id":1,"text": %s }`, test.json)))
			require.NoError(t, err)
			assert.Equal(t, test.want, string(events[0].Text))
		})
	}
}
