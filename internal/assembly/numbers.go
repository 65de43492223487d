package assembly

import (
	"encoding/binary"
	"slices"
)

// numbers is a list of numbers, as varints: the length of a frame most often takes one byte, and a token id two or three.
type numbers struct {
	varints []byte
	count   int
}

func (n *numbers) add(number uint32) {
	n.varints = binary.AppendUvarint(n.varints, uint64(number))
	n.count++
}

func (n *numbers) addAll(list []uint32) {
	varints := slices.Grow(n.varints, len(list))
	for _, number := range list {
		varints = binary.AppendUvarint(varints, uint64(number))
	}
	n.varints, n.count = varints, n.count+len(list)
}

// appendTo appends the numbers to a list.
func (n *numbers) appendTo(list []uint32) []uint32 {
	list = slices.Grow(list, n.count)
	for rest := n.varints; len(rest) > 0; {
		number, size := firstNumber(rest)
		list, rest = append(list, number), rest[size:]
	}
	return list
}

// size is how many bytes they take beside their own.
func (n *numbers) size() int { return cap(n.varints) }

// firstNumber returns the first of some varints, and how many bytes it takes.
func firstNumber(varints []byte) (number uint32, size int) {
	if first := varints[0]; first < 0x80 {
		return uint32(first), 1
	}
	long, size := binary.Uvarint(varints)
	return uint32(long), size
}
