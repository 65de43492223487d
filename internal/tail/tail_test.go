package tail

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhole(t *testing.T) {
	long := strings.Repeat("x", block)
	for name, test := range map[string]struct{ whole, torn string }{
		"empty":                           {"", ""},
		"one line":                        {"a\n", ""},
		"a newline":                       {"\n", ""},
		"a torn line":                     {"a\nb\n", "c"},
		"nothing but a torn line":         {"", "abc"},
		"a torn line of one block":        {"a\n", long},
		"a torn line of nearly one block": {"a\n", long[1:]},
		"a torn line of many blocks":      {long + "\n", long + long + long + "x"},
		"nothing but many blocks":         {"", long + long + "x"},
		"zeros, as a power cut may leave": {"a\n", strings.Repeat("\x00", 5000)},
	} {
		t.Run(name, func(t *testing.T) {
			content := test.whole + test.torn
			whole, err := Whole(strings.NewReader(content), int64(len(content)))
			require.NoError(t, err)
			assert.Equal(t, int64(len(test.whole)), whole)
		})
	}
}

// A file that shrinks meanwhile, or can't be read, is not taken for one without lines.
func TestReadFails(t *testing.T) {
	_, err := Whole(strings.NewReader("short"), 100)
	assert.Error(t, err)
	_, err = Whole(failing{}, 100)
	assert.ErrorIs(t, err, iotest.ErrTimeout)
	_, err = Whole(failing{from: 100 << 10}, 100<<10+1)
	assert.Error(t, err, "not only at the last byte")
}

// failing fails but for one byte at from.
type failing struct{ from int64 }

func (f failing) ReadAt(p []byte, offset int64) (int, error) {
	if f.from > 0 && offset == f.from {
		p[0] = 'x'
		return 1, nil
	}
	return 0, errors.Join(iotest.ErrTimeout)
}
