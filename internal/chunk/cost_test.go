package chunk

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// forms are the ways to send chunks, with what decoding one record of each allocates once the scratch memory is there.
// Bytes cost a copy each: pdata gives them out no other way.
var forms = []struct {
	name        string
	raw         raw
	chunks      int
	allocations float64
}{
	{"string", raw{contract.RequestID: "chatcmpl-1", contract.TextDiff: " token", contract.TokenIDsDiff: ints(1234)}, 1, 0},
	{"int id", raw{contract.RequestID: int64(123456), contract.TextDiff: " token", contract.TokenIDsDiff: ints(1234)}, 1, 1},
	{
		"array of 64", raw{
			contract.RequestID: "chatcmpl-1", contract.TextDiff: repeat[any](" token", 64),
			contract.TokenIDsDiff: repeat[any](int64(1234), 64), contract.FrameAges: repeat[any](int64(500), 64),
		}, 64, 0,
	},
	{
		"64 packed", raw{
			contract.RequestID: "chatcmpl-1", contract.TextDiff: string(repeat(byte('x'), 6*64)),
			contract.FrameLengths: packed(repeat(byte(6), 64)...), contract.TokenIDsDiff: packed(repeat(byte(200), 64)...),
			contract.FrameAges: packed(repeat(byte(100), 64)...),
		}, 64, 2,
	},
}

func repeat[T any](one T, times int) []T {
	many := make([]T, times)
	for i := range many {
		many[i] = one
	}
	return many
}

func TestAllocations(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			attributes := form.raw.readOnly(t)
			var d Decoder
			got := testing.AllocsPerRun(100, func() {
				c, err := d.Chunk(attributes, at100)
				if err != nil || len(c.Frames) != form.chunks {
					t.Error(len(c.Frames), err)
				}
				d.Reset()
			})
			assert.LessOrEqual(t, got, form.allocations)
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, form := range forms {
		b.Run(form.name, func(b *testing.B) {
			attributes := form.raw.readOnly(b)
			var d Decoder
			b.ReportAllocs()
			for b.Loop() {
				_, err := d.Chunk(attributes, at100)
				require.NoError(b, err)
				d.Reset()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*form.chunks), "ns/chunk")
		})
	}
}
