// Package layout has the names of what is on disk: <hour>/raw-<pid>[-<suffix>].jsonl, compressed with .zst behind it.
package layout // import "github.com/otel-rawoutput/rawoutput/internal/layout"

import (
	"crypto/rand"
	"encoding/base32"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Name is that of a file of lines.
type Name struct {
	PID        int
	Suffix     string // empty in the usual name
	Compressed bool
}

// String returns the name in its directory.
func (n Name) String() string {
	name := "raw-" + strconv.Itoa(n.PID)
	if n.Suffix != "" {
		name += "-" + n.Suffix
	}
	name += ".jsonl"
	if n.Compressed {
		name += ".zst"
	}
	return name
}

// Temporary returns the name of the file while it is not complete. A pattern for the files themselves does not match it.
func (n Name) Temporary() string { return "." + n.String() + temporary }

const temporary = ".tmp"

// Parse takes a name apart. ok is false where it is none of ours.
func Parse(name string) (n Name, ok bool) {
	match := pattern.FindStringSubmatch(name)
	if match == nil {
		return Name{}, false
	}
	pid, err := strconv.Atoi(match[1])
	return Name{pid, match[2], match[3] != ""}, err == nil
}

var pattern = regexp.MustCompile(`^raw-([1-9][0-9]{0,9})(?:-([a-z2-7]{13}))?\.jsonl(\.zst)?$`)

// IsTemporary reports whether the name is one that Temporary returns.
func IsTemporary(name string) bool {
	inner, ok := strings.CutPrefix(strings.TrimSuffix(name, temporary), ".")
	if !ok || !strings.HasSuffix(name, temporary) {
		return false
	}
	_, ok = Parse(inner)
	return ok
}

// suffixLen is the length of a suffix: 65 random bits.
const suffixLen = 13

// NewSuffix returns a suffix that nobody else has.
func NewSuffix() string { return strings.ToLower(rand.Text()[:suffixLen]) }

// SuffixOf returns a suffix made of a digest, which must have at least 9 bytes.
func SuffixOf(digest []byte) string {
	return strings.ToLower(base32.StdEncoding.EncodeToString(digest)[:suffixLen])
}

// HourLayout is that of the name of an hour, the first characters of a time, for package time.
const HourLayout = "2006-01-02T15"

// ParseHour returns the beginning of an hour. ok is false where the name is that of none.
func ParseHour(name string) (begin time.Time, ok bool) {
	begin, err := time.Parse(HourLayout, name)
	return begin, err == nil && begin.Format(HourLayout) == name
}
