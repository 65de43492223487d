package replay

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a string that may hold lone surrogates, each in the three bytes that UTF-8 would have for it. encoding/json
// would lose them.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil { // checks the syntax of what follows too
		return err
	}
	if mayHoldSurrogates(data) {
		s = unquote(data)
	}
	*t = Text(s)
	return nil
}

func mayHoldSurrogates(data []byte) bool {
	return bytes.Contains(data, []byte(`\ud`)) || bytes.Contains(data, []byte(`\uD`))
}

// unquote returns what a valid JSON string means.
func unquote(data []byte) string {
	data = bytes.Trim(data, " \t\r\n")
	data = data[1 : len(data)-1]
	var s []byte
	for len(data) > 0 {
		if data[0] != '\\' {
			s = append(s, data[0])
			data = data[1:]
			continue
		}
		var n int
		s, n = appendUnescaped(s, data)
		data = data[n:]
	}
	return string(s)
}

const (
	escapeLen     = len(`\n`)
	unicodeLen    = len(`\u0000`)
	surrogateFrom = 0xD800
	surrogateTo   = 0xDFFF
)

// appendUnescaped appends what the escape that data starts with means, and returns its length.
func appendUnescaped(s, data []byte) ([]byte, int) {
	if data[1] != 'u' {
		return append(s, unescaped(data[1])), escapeLen
	}
	r := codeUnit(data)
	if r < surrogateFrom || r > surrogateTo {
		return utf8.AppendRune(s, r), unicodeLen
	}
	if len(data) >= 2*unicodeLen && data[unicodeLen] == '\\' && data[unicodeLen+1] == 'u' {
		if pair := utf16.DecodeRune(r, codeUnit(data[unicodeLen:])); pair != utf8.RuneError {
			return utf8.AppendRune(s, pair), 2 * unicodeLen
		}
	}
	return append(s, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF), unicodeLen
}

func codeUnit(data []byte) rune {
	n, _ := strconv.ParseUint(string(data[2:unicodeLen]), 16, 16) // the syntax was checked
	return rune(n)
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}
