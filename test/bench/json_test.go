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
	"github.com/otel-rawoutput/rawoutput/internal/record/recordtest"
)

func lineOf(r *record.Record) *recordtest.Line {
	return &recordtest.Line{
		Event: "raw_output", RequestID: r.RequestID, DisaggRequestID: &r.DisaggRequestID, OutputIndex: r.OutputIndex,
		StartedAt: string(record.AppendTime(nil, r.StartedAt)), FinishedAt: string(record.AppendTime(nil, r.FinishedAt)),
		Streaming: r.Streaming, Aborted: r.Aborted, Partial: r.Partial, EndReason: &r.EndReason,
		Text: r.Text, Frames: r.Frames, FramesConsistent: r.FramesConsistent, TokenIDs: r.TokenIDs, NumOutputTokens: len(r.TokenIDs),
	}
}

// recordOf makes a record whose text is of that size, in frames of a chunk and a token each.
func recordOf(sample string, size int) *record.Record {
	const time = 1793768767_123456789
	r := &record.Record{
		RequestID: "0f9e6a3c", DisaggRequestID: "5d4b4c7e", OutputIndex: 1, StartedAt: time, FinishedAt: time + 2e9,
		Streaming: true, EndReason: "error", HasEndReason: true, Partial: true, FramesConsistent: true,
		Text: strings.Repeat(sample, size/len(sample)+1),
	}
	r.Frames, r.TokenIDs = recordtest.Frames(r.Text)
	return r
}

// encode makes the line of a record, over one that is no longer needed.
type encode func(over []byte, r *record.Record, l *recordtest.Line) ([]byte, error)

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
	{"segmentio", func(over []byte, _ *record.Record, l *recordtest.Line) ([]byte, error) {
		over, err := segmentio.Append(over[:0], l, 0)
		return append(over, '\n'), err
	}},
}

func appendLine() encode {
	var e record.Encoder
	return func(over []byte, r *record.Record, _ *recordtest.Line) ([]byte, error) {
		return e.AppendLine(over[:0], r), nil
	}
}

func throughEncoder[E interface {
	SetEscapeHTML(bool)
	Encode(any) error
}](newEncoder func(io.Writer) E) encode {
	var buffer bytes.Buffer
	e := newEncoder(&buffer)
	e.SetEscapeHTML(false)
	return func(_ []byte, _ *record.Record, l *recordtest.Line) ([]byte, error) {
		buffer.Reset()
		err := e.Encode(l)
		return buffer.Bytes(), err
	}
}

func sonic(options encoder.Options) encode {
	return func(over []byte, _ *record.Record, l *recordtest.Line) ([]byte, error) {
		over = over[:0]
		err := encoder.EncodeInto(&over, l, options)
		return append(over, '\n'), err
	}
}

// eachLine runs a benchmark, or a test, of each library with each record.
func eachLine[T interface{ Run(string, func(T)) bool }](t T, run func(T, encode, *record.Record, *recordtest.Line)) {
	for _, text := range recordtest.Texts {
		for _, size := range recordtest.Sizes {
			r := recordOf(text.Sample, size)
			l := lineOf(r)
			for _, library := range libraries {
				t.Run(fmt.Sprintf("text=%s/size=%d/lib=%s", text.Name, size, library.name), func(t T) { run(t, library.encode, r, l) })
			}
		}
	}
}

// TestLibrariesAgree: who leaves something out is not fast.
func TestLibrariesAgree(t *testing.T) {
	eachLine(t, func(t *testing.T, encode encode, r *record.Record, want *recordtest.Line) {
		var encoded []byte
		for range 2 { // the second one over the first
			var err error
			encoded, err = encode(encoded, r, want)
			require.NoError(t, err)
			require.Equal(t, len(encoded)-1, bytes.IndexByte(encoded, '\n'), "one line")
			var got recordtest.Line
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
	eachLine(b, func(b *testing.B, encode encode, r *record.Record, l *recordtest.Line) {
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
