package hourly

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFullFileSystem writes to one that takes only so much: a limit to the size of files stands for it.
func TestFullFileSystem(t *testing.T) {
	directory := t.TempDir()
	w := writerIn(t, directory)
	require.NoError(t, w.Append(theKey, []byte("first\n")))
	withFileSizeLimit(t, 4096, func() {
		assert.Error(t, w.Append(theKey, bytes.Repeat([]byte("too much\n"), 1000)))
		assert.Equal(t, "first\n", contentOf(t, directory, hour, name), "nothing of what did not fit is left")
		assert.NoError(t, w.Append(theKey, []byte("second\n")), "what fits still goes")
	})
	assert.Equal(t, "first\nsecond\n", contentOf(t, directory, hour, name))
}

func withFileSizeLimit(t *testing.T, bytes uint64, f func()) {
	t.Helper()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = bytes
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }()
	f()
}
