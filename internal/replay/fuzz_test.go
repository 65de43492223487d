package replay

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzText holds Text against encoding/json, which has U+FFFD for what only Text keeps.
func FuzzText(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\ud83d"`, `"\ud83d\ude00"`, `"\\ud83d\n\u0000"`, `null`, `"\uD83D\"x"`, ` "" `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want string
		if !utf8.Valid(data) || json.Unmarshal(data, &want) != nil {
			return
		}
		var got Text
		require.NoError(t, json.Unmarshal(data, &got))
		assert.Equal(t, want, withoutSurrogates(string(got)))
	})
}

// withoutSurrogates has U+FFFD for each lone surrogate, as encoding/json does.
func withoutSurrogates(s string) string {
	var b strings.Builder
	for s != "" {
		if len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 {
			b.WriteString("\uFFFD")
			s = s[3:]
			continue
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}
