package chunk

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

func (r raw) changeable(t *testing.T) pcommon.Map {
	t.Helper()
	attributes := pcommon.NewMap()
	require.NoError(t, attributes.FromRaw(r))
	return attributes
}

// A clone says what the chunk said, and nothing that happens to the record or the decoder changes that.
func TestClone(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			attributes := form.raw.and(raw{
				contract.Text: "the text", contract.IsFinal: true, contract.Streaming: true, contract.Aborted: false,
				contract.DisaggRequestID: "d", contract.ChunkIndex: int64(7), contract.EmitterDropped: int64(3), contract.OutputIndex: int64(2),
				"model": "m", "list": ints(1, 2),
			}).changeable(t)
			var d Decoder
			c, err := d.Chunk(attributes, at100)
			require.NoError(t, err)
			var again Decoder
			want, err := again.Chunk(attributes, at100)
			require.NoError(t, err)

			clone := c.Clone()
			for i, frame := range c.Frames {
				assert.NotSame(t, unsafe.StringData(frame), unsafe.StringData(clone.Frames[i]))
			}
			assert.NotSame(t, unsafe.StringData(c.Text), unsafe.StringData(clone.Text))
			d.Reset()
			_, err = d.Chunk(raw{contract.RequestID: "x", contract.TextDiff: repeat[any]("other", 64), contract.TokenIDsDiff: ints(9)}.changeable(t), at100)
			require.NoError(t, err)
			attributes.PutStr("model", "changed")

			assert.Equal(t, map[string]any{"model": "m", "list": []any{int64(1), int64(2)}}, clone.Attributes.AsRaw())
			clone.Attributes, want.Attributes = want.Attributes, clone.Attributes
			assert.Equal(t, want.Frames, clone.Frames)
			assert.Equal(t, want.TokenIDs, clone.TokenIDs)
			assert.Equal(t, want.Ages, clone.Ages)
			clone.Frames, clone.TokenIDs, clone.Ages, clone.Attributes = want.Frames, want.TokenIDs, want.Ages, want.Attributes
			assert.Equal(t, want, *clone)
		})
	}
}

// What a clone says that it takes must be about what it takes.
func TestSizeAgainstTheHeap(t *testing.T) {
	const clones = 2000
	long := func() string { return strings.Repeat("x", 3000) } // each time its own
	for _, test := range []struct {
		name string
		raw  func() raw
	}{
		{"small", func() raw { return raw{contract.TextDiff: " token", contract.TokenIDsDiff: ints(1)} }},
		{"a long text", func() raw { return raw{contract.TextDiff: " token", contract.Text: long()} }},
		{"a long frame", func() raw { return raw{contract.TextDiff: long()} }},
		{"many frames", func() raw { return raw{contract.TextDiff: repeat[any]("token", 200)} }},
		{"many token ids", func() raw { return raw{contract.TokenIDsDiff: repeat[any](int64(1), 1000)} }},
		{"ages", func() raw {
			return raw{contract.TextDiff: repeat[any]("token", 200), contract.FrameAges: repeat[any](int64(1), 200)}
		}},
		{"long ids", func() raw {
			return raw{contract.RequestID: long()[:contract.MaxIDBytes], contract.DisaggRequestID: long()[:contract.MaxIDBytes]}
		}},
		{"attributes", func() raw { return raw{"k": long(), "l": repeat[any]("x", 50), "m": int64(1)} }},
		{"attributes that are the contract's, which are not kept", func() raw { return raw{contract.Namespace + "new": long()} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := make([]*Chunk, clones)
			before, size := heap(), int64(0)
			for i := range kept {
				var d Decoder
				c, err := d.Chunk(ofR.and(test.raw()).changeable(t), at100)
				require.NoError(t, err)
				kept[i] = c.Clone()
				size += kept[i].Size()
			}
			took := heap() - before
			t.Logf("%d bytes said, %d taken", size, took)
			assert.InEpsilon(t, took, size, 0.25)
			runtime.KeepAlive(kept)
		})
	}
}

// heap is how many bytes are alive.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one may have found finalizers to run
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
