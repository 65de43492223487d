package layout

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]Name{
		"raw-1.jsonl":                                {PID: 1},
		"raw-4194304.jsonl":                          {PID: 4194304},
		"raw-1-abcdefghij234.jsonl":                  {PID: 1, Suffix: "abcdefghij234"},
		"raw-1.jsonl.zst":                            {PID: 1, Compressed: true},
		"raw-77-abcdefghij234.jsonl.zst":             {PID: 77, Suffix: "abcdefghij234", Compressed: true},
		(Name{PID: 5, Suffix: NewSuffix()}).String(): {},
	} {
		got, ok := Parse(name)
		assert.True(t, ok, name)
		assert.Equal(t, name, got.String())
		if want != (Name{}) {
			assert.Equal(t, want, got)
		}
		assert.False(t, IsTemporary(name), name)
		assert.True(t, IsTemporary(got.Temporary()), name)
		_, ok = Parse(got.Temporary())
		assert.False(t, ok)
	}
}

// What is not exactly one of our names is never touched.
func TestOtherNames(t *testing.T) {
	for _, name := range []string{
		"", "raw.jsonl", "raw-.jsonl", "raw-0.jsonl", "raw-01.jsonl", "raw--1.jsonl", "raw-+1.jsonl", "raw-1.json", "raw-1.jsonl.gz", "raw-1.jsonl~",
		"raw-1.jsonl.zst.zst", "raw-1-short.jsonl", "raw-1-ABCDEFGHIJ234.jsonl", "raw-1-abcdefghij2345.jsonl", "xraw-1.jsonl", "raw-1.jsonl\n", "raw-1x.jsonl",
		"raw-99999999999.jsonl", ".raw-1.jsonl", ".raw-1.jsonl.swp", "raw-1.jsonl.zst.tmp", ".raw-x.jsonl.zst.tmp", ".tmp",
	} {
		_, ok := Parse(name)
		assert.False(t, ok, name)
		assert.False(t, IsTemporary(name), name)
	}
}

func TestHours(t *testing.T) {
	begin, ok := ParseHour("2026-11-04T05")
	assert.True(t, ok)
	assert.Equal(t, time.Date(2026, 11, 4, 5, 0, 0, 0, time.UTC), begin)
	for _, name := range []string{"", "2026-11-04", "2026-11-04T24", "2026-13-04T05", "2026-11-04T05 ", "2026-11-04T05:00", "26-11-04T05", "2026-11-4T05"} {
		_, ok := ParseHour(name)
		assert.False(t, ok, name)
	}
}

func TestSuffixes(t *testing.T) {
	assert.NotEqual(t, NewSuffix(), NewSuffix())
	assert.Len(t, NewSuffix(), suffixLen)
	digest := sha256.Sum256([]byte("lines"))
	_, ok := Parse(Name{PID: 1, Suffix: SuffixOf(digest[:])}.String())
	assert.True(t, ok)
}
