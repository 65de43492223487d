package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bytedance/sonic/encoder"
	goccy "github.com/goccy/go-json"
	segmentio "github.com/segmentio/encoding/json"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/record"
)

// line is the line as the libraries encode it, times already made.
type line struct {
	Event            string   `json:"event"`
	RequestID        string   `json:"request_id"`
	DisaggRequestID  *string  `json:"disagg_request_id"`
	OutputIndex      uint32   `json:"output_index"`
	StartedAt        string   `json:"started_at"`
	FinishedAt       string   `json:"finished_at"`
	Streaming        bool     `json:"streaming"`
	Aborted          bool     `json:"aborted"`
	Partial          bool     `json:"partial"`
	EndReason        *string  `json:"end_reason"`
	Text             string   `json:"text"`
	Frames           []string `json:"frames"`
	FramesConsistent bool     `json:"frames_consistent"`
	TokenIDs         []uint32 `json:"token_ids"`
	NumOutputTokens  int      `json:"num_output_tokens"`
}

func lineOf(r *record.Record) *line {
	return &line{
		Event: "raw_output", RequestID: r.RequestID, DisaggRequestID: &r.DisaggRequestID, OutputIndex: r.OutputIndex,
		StartedAt: string(record.AppendTime(nil, r.StartedAt)), FinishedAt: string(record.AppendTime(nil, r.FinishedAt)),
		Streaming: r.Streaming, Aborted: r.Aborted, Partial: r.Partial, EndReason: &r.EndReason,
		Text: r.Text, Frames: r.Frames, FramesConsistent: r.FramesConsistent, TokenIDs: r.TokenIDs, NumOutputTokens: len(r.TokenIDs),
	}
}

// texts are what models write, from the cheapest to encode to the dearest.
var texts = []struct{ name, sample string }{
	{"ascii", "The quick brown fox jumps over the lazy dog. "},
	{"cjk", "吾輩は猫である。名前はまだ無い。"},
	{"escapes", "{\"a\": \"b\\c\"}\n\t"},
}

const frameBytes = 20 // about what a chunk of a few tokens adds

// recordOf makes a record whose text is of that size, in frames of a chunk and a token each.
func recordOf(sample string, size int) *record.Record {
	const time = 1793768767_123456789
	r := &record.Record{
		RequestID: "0f9e6a3c", DisaggRequestID: "5d4b4c7e", OutputIndex: 1, StartedAt: time, FinishedAt: time + 2e9,
		Streaming: true, EndReason: "error", HasEndReason: true, Partial: true, FramesConsistent: true,
		Text: strings.Repeat(sample, size/len(sample)+1),
	}
	add := func(frame string) { r.Frames, r.TokenIDs = append(r.Frames, frame), append(r.TokenIDs, 12345) }
	start := 0
	for i := range r.Text { // where characters begin
		if i-start >= frameBytes {
			add(r.Text[start:i])
			start = i
		}
	}
	add(r.Text[start:])
	return r
}

// encode makes the line of a record, over one that is no longer needed.
type encode func(over []byte, r *record.Record, l *line) ([]byte, error)

// libraries have HTML left as it is, as the line does, and reuse memory where they can be told to.
var libraries = []struct {
	name   string
	encode encode
}{
	{"ours", appendLine()},
	{"encoding-json", throughEncoder(json.NewEncoder)},
	{"sonic", sonic(0)}, // its ConfigFastest, which does not look whether text is UTF-8
	{"sonic-utf8", sonic(encoder.ValidateString)},
	{"goccy", throughEncoder(goccy.NewEncoder)},
	{"segmentio", func(over []byte, _ *record.Record, l *line) ([]byte, error) {
		over, err := segmentio.Append(over[:0], l, 0)
		return append(over, '\n'), err
	}},
}

func appendLine() encode {
	var e record.Encoder
	return func(over []byte, r *record.Record, _ *line) ([]byte, error) { return e.AppendLine(over[:0], r), nil }
}

func throughEncoder[E interface {
	SetEscapeHTML(bool)
	Encode(any) error
}](newEncoder func(io.Writer) E) encode {
	var buffer bytes.Buffer
	e := newEncoder(&buffer)
	e.SetEscapeHTML(false)
	return func(_ []byte, _ *record.Record, l *line) ([]byte, error) {
		buffer.Reset()
		err := e.Encode(l)
		return buffer.Bytes(), err
	}
}

func sonic(options encoder.Options) encode {
	return func(over []byte, _ *record.Record, l *line) ([]byte, error) {
		over = over[:0]
		err := encoder.EncodeInto(&over, l, options)
		return append(over, '\n'), err
	}
}

// sizes are of texts.
var sizes = []int{500, 4 << 10, 32 << 10}

// eachLine runs a benchmark, or a test, of each library with each record.
func eachLine[T interface{ Run(string, func(T)) bool }](t T, run func(T, encode, *record.Record, *line)) {
	for _, text := range texts {
		for _, size := range sizes {
			r := recordOf(text.sample, size)
			l := lineOf(r)
			for _, library := range libraries {
				t.Run(fmt.Sprintf("text=%s/size=%d/lib=%s", text.name, size, library.name), func(t T) { run(t, library.encode, r, l) })
			}
		}
	}
}

// TestLibrariesAgree: who leaves something out is not fast.
func TestLibrariesAgree(t *testing.T) {
	eachLine(t, func(t *testing.T, encode encode, r *record.Record, want *line) {
		var encoded []byte
		for range 2 { // the second one over the first
			var err error
			encoded, err = encode(encoded, r, want)
			require.NoError(t, err)
			require.Equal(t, len(encoded)-1, bytes.IndexByte(encoded, '\n'), "one line")
			var got line
			require.NoError(t, json.Unmarshal(encoded, &got))
			require.Equal(t, *want, got)
		}
	})
}

// BenchmarkLine has AppendLine beside encoding/json and the fastest libraries, as a yardstick. The bytes a second are those of
// the line. Columns:
//
//	go test -run='^$' -bench=Line -count=6 . | benchstat -col /lib -
func BenchmarkLine(b *testing.B) {
	eachLine(b, func(b *testing.B, encode encode, r *record.Record, l *line) {
		encoded, err := encode(nil, r, l)
		require.NoError(b, err)
		b.SetBytes(int64(len(encoded)))
		b.ReportAllocs()
		for b.Loop() {
			if encoded, err = encode(encoded, r, l); err != nil {
				b.Fatal(err)
			}
		}
	})
}
