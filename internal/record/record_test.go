package record

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The halves of the pair that makes 😀 in UTF-16, in the three bytes that UTF-8 would have for each.
const high, low = "\xed\xa0\xbd", "\xed\xb8\x80"

func TestAddUp(t *testing.T) {
	for _, test := range []struct {
		name   string
		frames []string
		text   string
		want   bool
	}{
		{"nothing", nil, "", true},
		{"no frames", nil, "a", false},
		{"no text", []string{"a"}, "", false},
		{"they do", []string{"a", "bc"}, "abc", true},
		{"one is missing", []string{"a", "c"}, "abc", false},
		{"one too many", []string{"a", "bc", "d"}, "abc", false},
		{"another order", []string{"bc", "a"}, "abc", false},
		{"another letter of the same length", []string{"a", "x"}, "ab", false},
		{"a frame longer than the text", []string{"abcd"}, "abc", false},

		{"a character cut in two: the line has U+FFFD in the frames", []string{"\xc3", "\xa9"}, "é", false},
		{"a cut character that the text has cut too", []string{"\xc3", "x"}, "\xc3x", true},
		{"U+FFFD for each byte in the text too", []string{"\xc3", "\xa9"}, "\uFFFD\uFFFD", true},
		{"another invalid byte is the same on the line", []string{"\xff"}, "\xfe", true},
		{"invalid bytes of another number", []string{"\xff", "\xff"}, "\xff", false},
		{"the end of a character that nothing begins", []string{"a", "\xa9"}, "a\xa9", true},

		{"a lone surrogate", []string{"a", high}, "a" + high, true},
		{"another surrogate", []string{high}, low, false},
		{"a surrogate cut in two", []string{high[:1], high[1:]}, high, false},
		{"halves the wrong way around", []string{low, high}, low + high, true},
		{"halves in one frame", []string{high + low}, high + low, true},
		{"halves in frames, the character in the text", []string{high, low}, "😀", false},
		{"an escape that is text", []string{`\ud83d`}, high, false},
		// A reader that joins the frames has two lone halves; the text's escapes, one after the other, are 😀 to it.
		{"halves in frames, the pair in the text", []string{high, low}, high + low, false},
		{"the last first half and the first second half", []string{"\xed\xaf\xbf", "\xed\xb0\x80"}, "\xed\xaf\xbf\xed\xb0\x80", false},
		{"two second halves", []string{"\xed\xb0\x80", "\xed\xb0\x80"}, "\xed\xb0\x80\xed\xb0\x80", true},
		{"two first halves", []string{"\xed\xaf\xbf", "\xed\xaf\xbf"}, "\xed\xaf\xbf\xed\xaf\xbf", true},
		{"U+FFFD is no surrogate", []string{high}, "\uFFFD", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, AddUp(test.frames, test.text))
			assert.Equal(t, test.want, addUpForReader(test.frames, test.text), "so it is for who reads the line")
		})
	}
}

// TestAddUpAtRandom cuts texts made of difficult pieces into frames.
func TestAddUpAtRandom(t *testing.T) {
	pieces := []string{"a", "\n", "é", "猫", "😀", "\uFFFD", "\xff", "\xc3", "\xa9", high, low}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		for range random.IntN(5) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		frames := cut(random, text.String())
		if random.IntN(4) == 0 { // one that is not the text's
			frames = append(frames, pieces[random.IntN(len(pieces))])
		}
		want := addUpForReader(frames, text.String())
		if !assert.Equal(t, want, AddUp(frames, text.String()), "frames %q, text %q", frames, text.String()) {
			return
		}
	}
}

// cut cuts a text at random bytes into frames that are not empty.
func cut(random *rand.Rand, text string) (frames []string) {
	for text != "" {
		n := 1 + random.IntN(len(text))
		frames, text = append(frames, text[:n]), text[n:]
	}
	return frames
}

// No lines are written for texts that are valid, whether the frames add up or not.
func TestAddUpOfValidTextAllocatesNothing(t *testing.T) {
	text := strings.Repeat("猫", 1000)
	assert.Zero(t, testing.AllocsPerRun(100, func() { AddUp([]string{text[:9], text[9:]}, text) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { AddUp(nil, text) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { AddUp([]string{text[:9], text[12:]}, text) }))
}
