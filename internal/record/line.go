package record

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/otel-rawoutput/rawoutput/internal/layout"
)

// AppendHour appends the name of the hour of a time in nanoseconds since 1970.
func AppendHour(dst []byte, nanos uint64) []byte {
	return utc(nanos).AppendFormat(dst, layout.HourLayout)
}

// Encoder makes lines of records. The zero value is ready; what it keeps is scratch memory.
type Encoder struct {
	escapes []escaped // of a text of no more than mostNoted bytes
}

// mostNoted is the length of a text, in bytes, whose escapes are noted: they may take 16 times as much.
const mostNoted = 64 << 10

// AppendLine appends the record's line, its newline included. It is valid JSON in valid UTF-8 whatever the strings hold:
// a lone surrogate in its three-byte form becomes its escape, any other invalid byte U+FFFD.
func (e *Encoder) AppendLine(dst []byte, r *Record) []byte {
	return append(e.appendKeys(dst, r), "}\n"...)
}

// appendKeys appends the keys that each line has.
func (e *Encoder) appendKeys(dst []byte, r *Record) []byte {
	dst = append(dst, `{"event":"raw_output","request_id":`...)
	dst = appendString(dst, r.RequestID)
	dst = append(dst, `,"disagg_request_id":`...)
	dst = appendNullable(dst, r.DisaggRequestID, r.DisaggRequestID != "")
	dst = append(dst, `,"output_index":`...)
	dst = strconv.AppendUint(dst, uint64(r.OutputIndex), 10)
	dst = append(dst, `,"started_at":"`...)
	dst = AppendTime(dst, r.StartedAt)
	dst = append(dst, `","finished_at":"`...)
	dst = AppendTime(dst, r.FinishedAt)
	dst = append(dst, `","streaming":`...)
	dst = strconv.AppendBool(dst, r.Streaming)
	dst = append(dst, `,"aborted":`...)
	dst = strconv.AppendBool(dst, r.Aborted)
	dst = append(dst, `,"partial":`...)
	dst = strconv.AppendBool(dst, r.Partial)
	dst = append(dst, `,"end_reason":`...)
	dst = appendNullable(dst, r.EndReason, r.HasEndReason)
	dst = e.appendText(dst, r)
	dst = append(dst, `,"frames_consistent":`...)
	dst = strconv.AppendBool(dst, r.FramesConsistent)
	dst = append(dst, `,"token_ids":`...)
	dst = appendNumbers(dst, r.TokenIDs)
	dst = append(dst, `,"num_output_tokens":`...)
	return strconv.AppendInt(dst, int64(len(r.TokenIDs)), 10)
}

// appendText appends the text and the frames. Most often the frames are the text, cut between characters: then each character
// is escaped once, and what becomes of a frame copied from what became of the text.
func (e *Encoder) appendText(dst []byte, r *Record) []byte {
	if len(r.Text) > mostNoted || !isCut(r.Text, r.Frames) {
		dst = appendString(append(dst, `,"text":`...), r.Text)
		return appendStrings(append(dst, `,"frames":`...), r.Frames)
	}
	dst = append(dst, `,"text":"`...)
	at := len(dst)
	e.escapes = e.escapes[:0]
	dst = appendValid(dst, r.Text, &e.escapes)
	dst = append(dst, `","frames":[`...)
	escapes, end := e.escapes, 0
	for i, frame := range r.Frames {
		from := at
		at, end = at+len(frame), end+len(frame)
		for len(escapes) > 0 && escapes[0].at < end {
			at += escapes[0].more
			escapes = escapes[1:]
		}
		dst = append(appendComma(dst, i), '"')
		dst = append(dst, dst[from:at]...)
		dst = append(dst, '"')
	}
	return append(dst, ']')
}

// escaped is a byte of a text that was escaped: where in the text it is, and how many bytes its escape has more.
type escaped struct{ at, more int }

// isCut reports whether the frames are a text that is valid UTF-8, cut between characters.
func isCut(text string, frames []string) bool {
	if !utf8.ValidString(text) || !isCutAnywhere(text, frames) {
		return false
	}
	for _, frame := range frames {
		if frame != "" && !utf8.RuneStart(frame[0]) {
			return false
		}
	}
	return true
}

// isCutAnywhere reports whether the frames are a text, cut wherever.
func isCutAnywhere(text string, frames []string) bool {
	for _, frame := range frames {
		rest, ok := strings.CutPrefix(text, frame)
		if !ok {
			return false
		}
		text = rest
	}
	return text == ""
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		dst = appendString(appendComma(dst, i), s)
	}
	return append(dst, ']')
}

func appendNumbers(dst []byte, numbers []uint32) []byte {
	dst = append(dst, '[')
	for i, n := range numbers {
		dst = appendNumber(appendComma(dst, i), n)
	}
	return append(dst, ']')
}

// appendNumber appends a number in decimal, in place: a line has one for each token, which were a third of its time with strconv.
func appendNumber(dst []byte, n uint32) []byte {
	if cap(dst)-len(dst) < maxDigits {
		dst = slices.Grow(dst, maxDigits)
	}
	end := len(dst) + digits(n)
	dst = dst[:end]
	for n >= 100 {
		pair := n % 100 * 2
		n /= 100
		dst[end-1], dst[end-2] = pairs[pair+1], pairs[pair]
		end -= 2
	}
	if n < 10 {
		dst[end-1] = '0' + byte(n)
		return dst
	}
	dst[end-1], dst[end-2] = pairs[n*2+1], pairs[n*2]
	return dst
}

const maxDigits = len("4294967295")

// digits is how many a number has in decimal.
func digits(n uint32) int {
	count := 1
	for limit := uint64(10); uint64(n) >= limit; limit *= 10 {
		count++
	}
	return count
}

// pairs are the numbers from 0 to 99, in two digits each.
const pairs = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"

func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// AppendTime appends a time as Python's datetime.isoformat gives it: microseconds, cut not rounded, six digits, and no
// fraction where it is zero.
func AppendTime(dst []byte, nanos uint64) []byte {
	dst = utc(nanos).AppendFormat(dst, time.RFC3339) // a layout that package time has a fast way for
	dst = dst[:len(dst)-len("Z")]
	if micros := nanos / uint64(time.Microsecond) % 1e6; micros != 0 {
		point := len(dst)
		dst = strconv.AppendUint(dst, 1e6+micros, 10) // seven digits, of which the first becomes the point
		dst[point] = '.'
	}
	return append(dst, "+00:00"...)
}

// utc works for every uint64: time.Unix(0, int64) would not.
func utc(nanos uint64) time.Time {
	return time.Unix(int64(nanos/uint64(time.Second)), int64(nanos%uint64(time.Second))).UTC()
}

func appendNullable(dst []byte, s string, ok bool) []byte {
	if !ok {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendEscaped appends s as the inside of a JSON string, escaped as Python's json.dumps(ensure_ascii=False) does.
func appendEscaped(dst []byte, s string) []byte {
	if utf8.ValidString(s) {
		return appendValid(dst, s, nil)
	}
	for len(s) > 0 {
		n := validPrefix(s)
		dst = appendValid(dst, s[:n], nil)
		s = s[n:]
		switch {
		case s == "":
		case startsWithSurrogate(s):
			dst = appendSurrogate(dst, s)
			s = s[surrogateLen:]
		default:
			dst = append(dst, "\uFFFD"...)
			s = s[1:]
		}
	}
	return dst
}

// validPrefix is the length of the longest prefix of s that is valid UTF-8.
func validPrefix(s string) int {
	for i, r := range s {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
			return i
		}
	}
	return len(s)
}

const (
	surrogateLen  = 3
	lowSurrogates = 0xB0 // the second byte of the first low one, U+DC00
)

// startsWithSurrogate reports whether s starts with the three bytes that UTF-8 would have for U+D800 to U+DFFF.
func startsWithSurrogate(s string) bool {
	return len(s) >= surrogateLen && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && s[2] >= 0x80 && s[2] <= 0xBF
}

func appendSurrogate(dst []byte, s string) []byte {
	code := 0xD000 | uint16(s[1]&0x3F)<<6 | uint16(s[2]&0x3F)
	return append(dst, '\\', 'u', hexDigits[code>>12], hexDigits[code>>8&0xF], hexDigits[code>>4&0xF], hexDigits[code&0xF])
}

const hexDigits = "0123456789abcdef"

// appendValid appends valid UTF-8, and what it escaped to notes, if there are any. Only ASCII needs escapes; everything else is
// copied, in runs where they are long.
func appendValid(dst []byte, s string, notes *[]escaped) []byte {
	b := unsafe.Slice(unsafe.StringData(s), len(s)) // only read
	for at := 0; at < len(b); {
		if at+8 <= len(b) {
			found := mustEscape(binary.LittleEndian.Uint64(b[at:]))
			if found == 0 {
				run := plainEights(b[at:])
				dst = append(dst, b[at:at+run]...)
				at += run
				continue
			}
			plain := bits.TrailingZeros64(found) / 8
			dst = append(dst, b[at:at+8]...)[:len(dst)+plain] // faster than so many
			at += plain
		}
		before := len(dst)
		dst = appendByte(dst, b[at])
		if more := len(dst) - before - 1; more > 0 && notes != nil {
			*notes = append(*notes, escaped{at, more})
		}
		at++
	}
	return dst
}

// plainEights returns how many bytes, a multiple of 8, come before eight in which something must be escaped, or before the rest.
func plainEights(b []byte) (n int) {
	for ; n+8 <= len(b) && mustEscape(binary.LittleEndian.Uint64(b[n:])) == 0; n += 8 {
	}
	return n
}

// One in each byte, and the highest bit of each.
const ones, highs = 0x0101010101010101, 0x8080808080808080

// mustEscape has the highest bit of the first of eight bytes that must be escaped, and perhaps of some behind it; it is 0 where none
// must. A byte is below n if taking n from it borrows from its highest bit, and zero if it is below 1; what it borrows from the
// bytes behind it makes them look like others.
func mustEscape(eight uint64) uint64 {
	quotes, backslashes := eight^ones*'"', eight^ones*'\\'
	return ((eight-ones*' ')&^eight | (quotes-ones)&^quotes | (backslashes-ones)&^backslashes) & highs
}

// appendByte appends a byte as it is, or its escape, which is longer.
func appendByte(dst []byte, c byte) []byte {
	switch letter := escape[c]; letter {
	case 0:
		return append(dst, c)
	case 'u':
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
	default:
		return append(dst, '\\', letter)
	}
}

// escape has, for each byte, the letter of its escape, u for \u00xx, or 0 for a byte that needs none.
var escape = func() (table [256]byte) {
	for c := range byte(0x20) {
		table[c] = 'u'
	}
	for c, letter := range map[byte]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'} {
		table[c] = letter
	}
	return table
}()
