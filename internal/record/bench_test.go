package record

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/record/recordtest"
)

// recordOf makes a record whose text is of that size, in frames of a chunk each.
func recordOf(sample string, size int) *Record {
	r := full()
	r.Text = strings.Repeat(sample, size/len(sample)+1)
	r.Frames, r.TokenIDs = recordtest.Frames(r.Text)
	return &r
}

func eachText(b *testing.B, run func(*testing.B, *Record)) {
	for _, text := range recordtest.Texts {
		for _, size := range recordtest.Sizes {
			b.Run(fmt.Sprintf("%s/%dB", text.Name, size), func(b *testing.B) { run(b, recordOf(text.Sample, size)) })
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

// formNames are the forms of a record's attributes.
var formNames = []struct {
	form Form
	name string
}{{Arrays, "arrays"}, {Packed, "packed"}}

func eachForm(b *testing.B, run func(*testing.B, *Record, Form)) {
	for _, f := range formNames {
		b.Run(f.name, func(b *testing.B) {
			eachText(b, func(b *testing.B, r *Record) {
				b.SetBytes(int64(len(r.Text)))
				b.ReportAllocs()
				run(b, r, f.form)
			})
		})
	}
}

func BenchmarkPut(b *testing.B) {
	eachForm(b, func(b *testing.B, r *Record, form Form) {
		r.ValidUTF8 = true
		for b.Loop() {
			r.Put(pcommon.NewMap(), form)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	eachForm(b, func(b *testing.B, r *Record, form Form) {
		attributes := sent(b, r, form)
		var d Reader
		for b.Loop() {
			if _, err := d.Read(attributes, 0, t0); err != nil {
				b.Fatal(err)
			}
			d.Release()
		}
	})
}
