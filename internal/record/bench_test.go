package record

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// texts are what models write, from the cheapest to encode to the dearest.
var texts = []struct{ name, sample string }{
	{"ascii", "The quick brown fox jumps over the lazy dog. "},
	{"cjk", "吾輩は猫である。名前はまだ無い。"},
	{"escapes", "{\"a\": \"b\\c\"}\n\t"},
}

const frameBytes = 20 // about what a chunk of a few tokens adds

// recordOf makes a record whose text is of that size, in frames of a chunk each.
func recordOf(sample string, size int) *Record {
	r := full()
	r.Text = strings.Repeat(sample, size/len(sample)+1)
	r.Frames, r.TokenIDs = nil, nil
	for rest := r.Text; rest != ""; {
		n := min(frameBytes, len(rest))
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		r.Frames, r.TokenIDs, rest = append(r.Frames, rest[:n]), append(r.TokenIDs, 12345), rest[n:]
	}
	return &r
}

func eachText(b *testing.B, run func(*testing.B, *Record)) {
	for _, text := range texts {
		for _, size := range []int{500, 4 << 10, 32 << 10} {
			b.Run(fmt.Sprintf("%s/%dB", text.name, size), func(b *testing.B) { run(b, recordOf(text.sample, size)) })
		}
	}
}

// The bytes a second are those of the line. Other libraries on the same records are in test/bench.
func BenchmarkAppendLine(b *testing.B) {
	eachText(b, func(b *testing.B, r *Record) {
		var e Encoder
		line := e.AppendLine(nil, r)
		b.SetBytes(int64(len(line)))
		b.ReportAllocs()
		for b.Loop() {
			line = e.AppendLine(line[:0], r)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	eachText(b, func(b *testing.B, r *Record) {
		attributes := sent(b, r, Arrays)
		var d Reader
		b.SetBytes(int64(len(r.Text)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Read(attributes, 0, t0); err != nil {
				b.Fatal(err)
			}
			d.Release()
		}
	})
}
