package chunk

import (
	"slices"
	"strings"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/heapsize"
)

// Clone returns a copy that refers neither to the record that c was decoded from nor to a Decoder. Of the attributes it has
// only those that stay on the output's record.
func (c *Chunk) Clone() *Chunk {
	clone := *c
	clone.RequestID = strings.Clone(c.RequestID)
	clone.DisaggRequestID = strings.Clone(c.DisaggRequestID)
	clone.Text = strings.Clone(c.Text)
	clone.Frames = cloneFrames(c.Frames)
	clone.TokenIDs = slices.Clone(c.TokenIDs)
	clone.Ages = slices.Clone(c.Ages)
	clone.Attributes = pcommon.NewMap()
	if c.Others > 0 {
		for key, value := range c.Attributes.All() {
			if IsOther(key) {
				value.CopyTo(clone.Attributes.PutEmpty(key))
			}
		}
	}
	return &clone
}

// cloneFrames copies the frames into one piece of memory.
func cloneFrames(frames []string) []string {
	if len(frames) == 1 { // which a join would give back as it is
		return []string{strings.Clone(frames[0])}
	}
	joined := strings.Join(frames, "")
	clones := make([]string, len(frames))
	for i, frame := range frames {
		clones[i], joined = joined[:len(frame)], joined[len(frame):]
	}
	return clones
}

// emptyMap is what an attribute map takes that has nothing in it.
const emptyMap = 32

// Size is the memory that a Clone takes, in bytes.
func (c *Chunk) Size() int64 {
	size := int64(unsafe.Sizeof(*c)) + emptyMap + int64(len(c.RequestID)+len(c.DisaggRequestID)+len(c.Text))
	for _, frame := range c.Frames {
		size += int64(len(frame))
	}
	size += int64(len(c.Frames)*int(unsafe.Sizeof("")) + 4*cap(c.TokenIDs) + 8*cap(c.Ages))
	return size + heapsize.Map(c.Attributes)
}
