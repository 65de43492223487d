package assembly

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumbers(t *testing.T) {
	want := []uint32{0, 1, 127, 128, 1<<14 - 1, 1 << 14, 1<<21 - 1, 1 << 21, 1<<28 - 1, 1 << 28, math.MaxUint32, 0}
	var n numbers
	n.add(want[0])
	n.addAll(want[1:7])
	n.addAll(nil)
	n.addAll(want[7:])
	assert.Equal(t, len(want), n.count)
	assert.Equal(t, append([]uint32{5}, want...), n.appendTo([]uint32{5}))
	assert.Len(t, n.varints, 4*1+2*2+2*3+2*4+2*5, "7 bits a byte")
}
