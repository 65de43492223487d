package record

import (
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// What the bytes of a string mean once they were written to a line and read again, worked out byte by byte without any
// thought of speed. The tests hold the package against it.

// codePoints is the string that a reader has whose strings may hold lone surrogates, such as Python's: halves of a pair
// that follow each other within the string are one character to it.
func codePoints(s string) []rune {
	var points []rune
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			r, size = surrogate(s)
		}
		points, s = append(points, r), s[size:]
		if n := len(points); n > 1 {
			if pair := utf16.DecodeRune(points[n-2], points[n-1]); pair != utf8.RuneError {
				points = append(points[:n-2], pair)
			}
		}
	}
	return points
}

// surrogate decodes the three bytes of a surrogate; any other byte stands for U+FFFD.
func surrogate(s string) (rune, int) {
	for r := rune(0xD800); r <= 0xDFFF && len(s) >= 3; r++ {
		if s[0] == 0xE0|byte(r>>12) && s[1] == 0x80|byte(r>>6)&0x3F && s[2] == 0x80|byte(r)&0x3F {
			return r, 3
		}
	}
	return utf8.RuneError, 1
}

// asGo is the string that a reader has whose strings are UTF-8: a lone surrogate is U+FFFD to it.
func asGo(s string) string { return string(codePoints(s)) }

// addUpForReader reports whether a reader of the line finds that the frames add up to the text.
func addUpForReader(frames []string, text string) bool {
	var joined []rune
	for _, frame := range frames {
		joined = append(joined, codePoints(frame)...)
	}
	return slices.Equal(joined, codePoints(text))
}
