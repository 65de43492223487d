package assembly

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

func TestText(t *testing.T) {
	runConversations(t, []conversationTest{
		{
			name:  "without full text, the frames",
			steps: []step{chunkOf("r", "a"), chunkOf("r", "b"), chunkOf("r", "c").final()},
			want:  []string{`r/0 1-3 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "the full text on the final chunk",
			steps: []step{chunkOf("r", "a"), chunkOf("r", "b").text("ab").final()},
			want:  []string{`r/0 1-2 "ab" ["a" "b"]`},
		},
		{
			name:  "the full text on every chunk",
			steps: []step{chunkOf("r", "a").text("a"), chunkOf("r", "b").text("ab"), chunkOf("r", "c").text("abc").final()},
			want:  []string{`r/0 1-3 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "the latest full text, and the frames after it",
			steps: []step{chunkOf("r", "a"), chunkOf("r", "b").text("ab"), chunkOf("r", "c"), chunkOf("r", "d").final()},
			want:  []string{`r/0 1-4 "abcd" ["a" "b" "c" "d"]`},
		},
		{
			name:  "a text that is not its frames, and the frames after it",
			steps: []step{chunkOf("r", "a").text("A"), chunkOf("r", "b"), chunkOf("r", "c").final()},
			want:  []string{`r/0 1-3 "Abc" ["a" "b" "c"] inconsistent`},
		},
		{
			name:  "a text that is empty, as a detokenizer can take back what it gave, and the frames after it",
			steps: []step{chunkOf("r", "a").text("a"), chunkOf("r", "").text(""), chunkOf("r", "b").final()},
			want:  []string{`r/0 1-3 "b" ["a" "b"] inconsistent`},
		},
		{
			name:  "a later text replaces one that was not its frames",
			steps: []step{chunkOf("r", "a").text("wrong and long"), chunkOf("r", "b").text("ab"), chunkOf("r", "c").final()},
			want:  []string{`r/0 1-3 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "a later text that is not its frames either",
			steps: []step{chunkOf("r", "a").text("wrong and long"), chunkOf("r", "b").text("AB"), chunkOf("r", "c").final()},
			want:  []string{`r/0 1-3 "ABc" ["a" "b" "c"] inconsistent`},
		},
		{
			name:  "a text that was its frames, and then is not",
			steps: []step{chunkOf("r", "a").text("a"), chunkOf("r", "b"), chunkOf("r", "c").text("ab").final()},
			want:  []string{`r/0 1-3 "ab" ["a" "b" "c"] inconsistent`},
		},
		{
			name:  "a text before any frame",
			steps: []step{chunkOf("r").text("A"), chunkOf("r", "b").final()},
			want:  []string{`r/0 1-2 "Ab" ["b"] inconsistent`},
		},
		{
			name:  "a text without any frame",
			steps: []step{chunkOf("r").text("abc").final()},
			want:  []string{`r/0 1-1 "abc" [] inconsistent`},
		},
		{
			name:  "of a record with several chunks the text is that after the last",
			steps: []step{chunkOf("r", "a", "", "b").text("ab"), chunkOf("r", "c", "d").final()},
			want:  []string{`r/0 1-2 "abcd" ["a" "b" "c" "d"]`},
		},
		{
			name:  "chunks without text leave no frame",
			steps: []step{chunkOf("r"), chunkOf("r", "a"), chunkOf("r", "", ""), chunkOf("r").final()},
			want:  []string{`r/0 1-4 "a" ["a"]`},
		},
		{
			name:  "nothing at all",
			steps: []step{chunkOf("r").final()},
			want:  []string{`r/0 1-1 "" []`},
		},
		{
			name:  "a character cut in two: the line's frames cannot add up to it",
			steps: []step{chunkOf("r", "\xc3"), chunkOf("r", "\xa9").final()},
			want:  []string{`r/0 1-2 "é" ["\xc3" "\xa9"] inconsistent`},
		},
		{
			name:  "the same with the full text",
			steps: []step{chunkOf("r", "\xc3"), chunkOf("r", "\xa9").text("é").final()},
			want:  []string{`r/0 1-2 "é" ["\xc3" "\xa9"] inconsistent`},
		},
		{
			name:  "an invalid byte that is one on both sides",
			steps: []step{chunkOf("r", "a\xff").text("a\xff"), chunkOf("r", "b").final()},
			want:  []string{`r/0 1-2 "a\xffb" ["a\xff" "b"]`},
		},
		{
			name:  "a lone surrogate",
			steps: []step{chunkOf("r", "a\xed\xa0\xbd"), chunkOf("r", "b").final()},
			want:  []string{`r/0 1-2 "a\xed\xa0\xbdb" ["a\xed\xa0\xbd" "b"]`},
		},
	})
}

func TestTokens(t *testing.T) {
	runConversations(t, []conversationTest{
		{
			name:  "in order",
			steps: []step{chunkOf("r", "a").tokens(5), chunkOf("r", "b"), chunkOf("r").tokens(0, 4294967295).final()},
			want:  []string{`r/0 1-3 "ab" ["a" "b"] tokens[5 0 4294967295]`},
		},
		{
			name:  "without text",
			steps: []step{chunkOf("r").tokens(5).final()},
			want:  []string{`r/0 1-1 "" [] tokens[5]`},
		},
	})
}

func TestFlags(t *testing.T) {
	const known, no, yes = chunk.Unknown, chunk.False, chunk.True
	runConversations(t, []conversationTest{
		{
			name:  "on the first chunk only",
			steps: []step{chunkOf("r", "a").streaming(yes).aborted(yes).disagg("d"), chunkOf("r", "b"), chunkOf("r", "c").final()},
			want:  []string{`r/0 1-3 "abc" ["a" "b" "c"] streaming aborted disagg=d`},
		},
		{
			name:  "on the last chunk only",
			steps: []step{chunkOf("r", "a"), chunkOf("r", "b").streaming(yes).aborted(yes).disagg("d").final()},
			want:  []string{`r/0 1-2 "ab" ["a" "b"] streaming aborted disagg=d`},
		},
		{
			name: "the last value counts",
			steps: []step{
				chunkOf("r", "a").streaming(yes).aborted(yes).disagg("d"), chunkOf("r", "b").streaming(no).aborted(no).disagg("e"),
				chunkOf("r", "c").streaming(known).aborted(known).final(),
			},
			want: []string{`r/0 1-3 "abc" ["a" "b" "c"] disagg=e`},
		},
		{
			name:  "null is a value of the disaggregated id",
			steps: []step{chunkOf("r", "a").disagg("d"), chunkOf("r", "b").disagg(""), chunkOf("r", "c").final()},
			want:  []string{`r/0 1-3 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "none known",
			steps: []step{chunkOf("r", "a").final()},
			want:  []string{`r/0 1-1 "a" ["a"]`},
		},
		{
			name:  "of one output, not of its request",
			steps: []step{chunkOf("r", "a").streaming(yes).disagg("d"), chunkOf("r", "b").index(1).final()},
			want:  []string{`r/1 2-2 "b" ["b"]`},
			left:  1,
		},
	})
}

func TestIdentity(t *testing.T) {
	runConversations(t, []conversationTest{
		{
			name: "source, request and index tell outputs apart",
			steps: []step{
				chunkOf("r", "a"), chunkOf("r", "b").index(1), chunkOf("s", "c"), chunkOf("r", "d").by("other"),
				chunkOf("r").final(), chunkOf("r").index(1).final(), chunkOf("s").final(), chunkOf("r").by("other").final(),
			},
			want: []string{`r/0 1-5 "a" ["a"]`, `r/1 2-6 "b" ["b"]`, `s/0 3-7 "c" ["c"]`, `r/0 4-8 "d" ["d"]`},
		},
		{
			name:  "an id that is used again begins a new output",
			steps: []step{chunkOf("r", "a").final(), chunkOf("r", "b"), chunkOf("r", "c").final()},
			want:  []string{`r/0 1-1 "a" ["a"]`, `r/0 2-3 "bc" ["b" "c"]`},
		},
	})
}

func TestTimes(t *testing.T) {
	runConversations(t, []conversationTest{
		{
			name:  "of the first chunk and the final one",
			steps: []step{chunkOf("r", "a").at(10), chunkOf("r", "b").at(20), chunkOf("r", "c").at(30).final()},
			want:  []string{`r/0 10-30 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "of the first and the last chunk in the records",
			steps: []step{chunkOf("r", "a", "b").during(10, 11), chunkOf("r", "c", "d").during(20, 21).final()},
			want:  []string{`r/0 10-21 "abcd" ["a" "b" "c" "d"]`},
		},
		{
			name:  "in the order received, whatever the clocks say",
			steps: []step{chunkOf("r", "a").at(30), chunkOf("r", "b").at(10).final()},
			want:  []string{`r/0 30-10 "ab" ["a" "b"]`},
		},
	})
}

func TestEvictionByNumber(t *testing.T) {
	of := func(outputs int) Options {
		limits := unlimited
		limits.Outputs = outputs
		return limits
	}
	runConversations(t, []conversationTest{
		{
			name:   "one too many: the least recently updated goes, at the time of the chunk that is too many",
			limits: of(2),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("c", "x").at(30)},
			want:   []string{`a/0 1-30 "x" ["x"] partial reason="evicted"`},
			left:   2,
		},
		{
			name:   "an update counts",
			limits: of(2),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a", "y"), chunkOf("c", "x")},
			want:   []string{`b/0 2-4 "x" ["x"] partial reason="evicted"`},
			left:   2,
		},
		{
			name:   "also one without text",
			limits: of(2),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a"), chunkOf("c", "x")},
			want:   []string{`b/0 2-4 "x" ["x"] partial reason="evicted"`},
			left:   2,
		},
		{
			name:   "as many as allowed",
			limits: of(2),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a", "y"), chunkOf("b", "y")},
			left:   2,
		},
		{
			name:   "outputs of one request count each",
			limits: of(2),
			steps:  []step{chunkOf("a", "x"), chunkOf("a", "x").index(1), chunkOf("a", "x").index(2)},
			want:   []string{`a/0 1-3 "x" ["x"] partial reason="evicted"`},
			left:   2,
		},
		{
			name:   "what ends with its first chunk needs no room",
			limits: of(1),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "y").final()},
			want:   []string{`b/0 2-2 "y" ["y"]`},
			left:   1,
		},
		{
			name:   "what ends with its second chunk needs it, also in one record, from its first chunk on",
			limits: of(1),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "y", "z").during(20, 21).final()},
			want:   []string{`a/0 1-20 "x" ["x"] partial reason="evicted"`, `b/0 20-21 "yz" ["y" "z"]`},
		},
		{
			name:   "an end makes room",
			limits: of(2),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a").final(), chunkOf("c", "x")},
			want:   []string{`a/0 1-3 "x" ["x"]`},
			left:   2,
		},
		{
			name:   "a chunk after the eviction begins a new output",
			limits: of(1),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a", "y").final(), chunkOf("a", "z"), chunkOf("a").final()},
			want: []string{
				`a/0 1-2 "x" ["x"] partial reason="evicted"`, `a/0 3-3 "y" ["y"]`,
				`b/0 2-4 "x" ["x"] partial reason="evicted"`, `a/0 4-5 "z" ["z"]`,
			},
		},
		{
			name:   "with the text that it has",
			limits: of(1),
			steps:  []step{chunkOf("a", "x").text("X").tokens(1).streaming(chunk.True), chunkOf("b", "x")},
			want:   []string{`a/0 1-2 "X" ["x"] tokens[1] streaming partial reason="evicted" inconsistent`},
			left:   1,
		},
		{
			name:   "an empty one leaves nothing",
			limits: of(1),
			steps:  []step{chunkOf("a"), chunkOf("b", "x")},
			empty:  1,
			left:   1,
		},
	})
}

// The texts here are large beside what else an output takes (about 1 kB), and the limits leave room for it.
func TestEvictionByBytes(t *testing.T) {
	kB := func(n int) string { return strings.Repeat("x", n*1000) }
	bytes := func(all, one int64) Options { return Options{Outputs: 100, Bytes: all, OutputBytes: one} }
	runConversations(t, []conversationTest{
		{
			name:   "the least recently updated goes",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(10)), chunkOf("a", "y"), chunkOf("c", kB(30)).during(3, 30)},
			want:   []string{`b/0 2-30 "x"*10000 ["x"*10000] partial reason="evicted"`},
			left:   2,
		},
		{
			name:   "as many as it takes",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(10)), chunkOf("c", kB(40))},
			want: []string{
				`a/0 1-3 "x"*10000 ["x"*10000] partial reason="evicted"`, `b/0 2-3 "x"*10000 ["x"*10000] partial reason="evicted"`,
			},
			left: 1,
		},
		{
			name:   "at last the one that grows",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(1)), chunkOf("b", kB(60))},
			want: []string{
				`a/0 1-2 "x"*1000 ["x"*1000] partial reason="evicted"`, `b/0 2-2 "x"*60000 ["x"*60000] partial reason="evicted"`,
			},
		},
		{
			name:   "large token ids take four bytes",
			limits: bytes(50_700, 1<<30),
			steps:  []step{chunkOf("a", "x"), chunkOf("b").tokens(largeIDs(10_000)...)},
			want:   []string{`a/0 1-2 "x" ["x"] partial reason="evicted"`},
			left:   1,
		},
		{
			name:   "a text that is not its frames takes its bytes too",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(10)), chunkOf("b", "y").text(kB(30))},
			want:   []string{`a/0 1-3 "x"*10000 ["x"*10000] partial reason="evicted"`},
			left:   1,
		},
		{
			name:   "a text that is its frames does not",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(30)).text(kB(30))},
			left:   2,
		},
		{
			name:   "what ends makes room before",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(60)).final()},
			want:   []string{`b/0 2-2 "x"*60000 ["x"*60000]`},
			left:   1,
		},
		{
			name:   "what the caller holds counts from the next chunk on",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(10)), hold(30_000), chunkOf("b", "y")},
			want:   []string{`a/0 1-4 "x"*10000 ["x"*10000] partial reason="evicted"`},
			left:   1,
		},
		{
			name:   "or from a call on that makes room",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(10)), hold(30_000), makeRoom{}},
			want:   []string{`a/0 1-4 "x"*10000 ["x"*10000] partial reason="evicted"`},
			left:   1,
		},
		{
			name:   "which does nothing where there is room",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), hold(30_000), makeRoom{}},
			left:   1,
		},
		{
			name:   "until it holds less",
			limits: bytes(50_000, 1<<30),
			steps:  []step{chunkOf("a", kB(10)), hold(100_000), hold(0), chunkOf("b", kB(10))},
			left:   2,
		},
		{
			name:   "an output over its own limit goes itself, and no other",
			limits: bytes(1<<30, 20_000),
			steps:  []step{chunkOf("a", kB(10)), chunkOf("b", kB(10)), chunkOf("b", kB(10)).during(30, 31)},
			want:   []string{`b/0 2-31 "x"*20000 ["x"*10000 "x"*10000] partial reason="evicted"`},
			left:   1,
		},
		{
			name:   "its final chunk is not over any limit",
			limits: bytes(1<<30, 20_000),
			steps:  []step{chunkOf("b", kB(10)), chunkOf("b", kB(10)).final()},
			want:   []string{`b/0 1-2 "x"*20000 ["x"*10000 "x"*10000]`},
		},
	})
}

// Whatever a sender can make large must count, or the limit of bytes is none.
func TestWhatCounts(t *testing.T) {
	const size = 5000
	long := strings.Repeat("x", size)
	bytesAfter := func(from *From, trace signal.Trace, c *saidChunk) int64 {
		table := NewTable(unlimited)
		table.Add(from, trace, &c.Chunk, time.Time{})
		return table.Bytes()
	}
	usual := func() *From { return begin(unlimited).from("x") }
	largeScope := usual()
	largeScope.Scope.Scope.SetName(long)
	base := bytesAfter(usual(), signal.Trace{}, chunkOf("r", "a"))
	for name, bytes := range map[string]int64{
		"text":                      bytesAfter(usual(), signal.Trace{}, chunkOf("r", long)),
		"a text unlike its frames":  bytesAfter(usual(), signal.Trace{}, chunkOf("r", "a").text(long)),
		"token ids":                 bytesAfter(usual(), signal.Trace{}, chunkOf("r", "a").tokens(largeIDs(size/4)...)),
		"frames":                    bytesAfter(usual(), signal.Trace{}, chunkOf("r", strings.Split(long, "")[:size/2]...)),
		"the request id":            bytesAfter(usual(), signal.Trace{}, chunkOf(long, "a")),
		"the disaggregated id":      bytesAfter(usual(), signal.Trace{}, chunkOf("r", "a").disagg(long)),
		"the trace state":           bytesAfter(usual(), signal.Trace{State: long}, chunkOf("r", "a")),
		"other attributes":          bytesAfter(usual(), signal.Trace{}, chunkOf("r", "a").with(map[string]any{"k": long})),
		"the resource or the scope": bytesAfter(largeScope, signal.Trace{}, chunkOf("r", "a")),
	} {
		assert.GreaterOrEqual(t, bytes, base+size-100, name)
	}
}

// largeIDs are token ids of four bytes each.
func largeIDs(n int) []uint32 { return slices.Repeat([]uint32{1<<28 - 1}, n) }

// A text that was not the frames is given up once one comes that is.
func TestTextIsGivenUp(t *testing.T) {
	c := begin(unlimited)
	c.say(chunkOf("r", "a").text(strings.Repeat("x", 5000)))
	before := c.table.Bytes()
	c.say(chunkOf("r", "b").text("ab"))
	assert.Less(t, c.table.Bytes(), before-4900)
}

// What the caller holds beside the outputs in flight counts, from MakeRoom on.
func TestMakeRoom(t *testing.T) {
	c := begin(Options{Outputs: 10, Bytes: 50_000, OutputBytes: 50_000})
	c.table.Hold(60_000)
	c.table.MakeRoom(0) // nothing is in flight, nothing can be evicted
	c.table.Hold(0)
	c.say(chunkOf("a", strings.Repeat("x", 10_000)))
	c.table.Hold(50_000 - c.table.Bytes())
	c.table.MakeRoom(0)
	assert.Equal(t, 1, c.table.Len(), "just what is allowed")
	c.table.Hold(50_001 - c.table.Bytes())
	c.table.MakeRoom(0)
	assert.Zero(t, c.table.Len())
}

func TestRequestEnd(t *testing.T) {
	runConversations(t, []conversationTest{
		{
			name: "all outputs in flight, from the least to the most recently updated",
			steps: []step{
				chunkOf("r", "a"), chunkOf("r", "b").index(1), chunkOf("r", "c").index(2), chunkOf("r", "A"), endOf("r", "error").at(9),
			},
			want: []string{
				`r/1 2-9 "b" ["b"] partial reason="error"`, `r/2 3-9 "c" ["c"] partial reason="error"`,
				`r/0 1-9 "aA" ["a" "A"] partial reason="error"`,
			},
		},
		{
			name: "also where others ended before",
			steps: []step{
				chunkOf("r", "a"), chunkOf("r", "b").index(1), chunkOf("r", "c").index(2), chunkOf("r", "d").index(3),
				chunkOf("r").final(), endOf("r", "error"),
			},
			want: []string{
				`r/0 1-5 "a" ["a"]`, `r/1 2-6 "b" ["b"] partial reason="error"`, `r/2 3-6 "c" ["c"] partial reason="error"`,
				`r/3 4-6 "d" ["d"] partial reason="error"`,
			},
		},
		{
			name:  "an empty reason is one",
			steps: []step{chunkOf("r", "a"), endOf("r", "")},
			want:  []string{`r/0 1-2 "a" ["a"] partial reason=""`},
		},
		{
			name:  "only those that began no later",
			steps: []step{chunkOf("r", "a").at(5), chunkOf("r", "b").index(1).at(6), chunkOf("r", "c").index(2).at(7), endOf("r", "error").at(6)},
			want:  []string{`r/0 5-6 "a" ["a"] partial reason="error"`, `r/1 6-6 "b" ["b"] partial reason="error"`},
			left:  1,
		},
		{
			name:  "the start counts, not the last chunk",
			steps: []step{chunkOf("r", "a").at(5), chunkOf("r", "b").at(9), endOf("r", "error").at(6)},
			want:  []string{`r/0 5-6 "ab" ["a" "b"] partial reason="error"`},
		},
		{
			name:  "of the first chunk in a record",
			steps: []step{chunkOf("r", "a", "b").during(5, 9), endOf("r", "error").at(6)},
			want:  []string{`r/0 5-6 "ab" ["a" "b"] partial reason="error"`},
		},
		{
			name:  "only of its source",
			steps: []step{chunkOf("r", "a").by("x"), chunkOf("r", "b").by("y"), endOf("r", "error").by("y")},
			want:  []string{`r/0 2-3 "b" ["b"] partial reason="error"`},
			left:  1,
		},
		{
			name:  "only of its request",
			steps: []step{chunkOf("r", "a"), chunkOf("rr", "b"), endOf("r", "error")},
			want:  []string{`r/0 1-3 "a" ["a"] partial reason="error"`},
			left:  1,
		},
		{
			name:  "of a request that nobody knows",
			steps: []step{chunkOf("r", "a"), endOf("s", "error")},
			left:  1,
		},
		{
			name:  "an end comes twice",
			steps: []step{chunkOf("r", "a"), endOf("r", "error"), endOf("r", "again"), chunkOf("r", "b"), chunkOf("r").final()},
			want:  []string{`r/0 1-2 "a" ["a"] partial reason="error"`, `r/0 4-5 "b" ["b"]`},
		},
	})
}

func TestEmptyOutputs(t *testing.T) {
	runConversations(t, []conversationTest{
		{name: "ended by the request", steps: []step{chunkOf("r"), chunkOf("r").index(1), endOf("r", "error")}, empty: 2},
		{name: "idle", steps: []step{chunkOf("r"), idleFor(0)}, empty: 1},
		{name: "flushed", steps: []step{chunkOf("r"), flush(9)}, empty: 1},
		{
			name:  "among others",
			steps: []step{chunkOf("r", "a"), chunkOf("r").index(1), chunkOf("r", "c").index(2), endOf("r", "error")},
			want:  []string{`r/0 1-4 "a" ["a"] partial reason="error"`, `r/2 3-4 "c" ["c"] partial reason="error"`},
			empty: 1,
		},
		{
			name:  "token ids are something",
			steps: []step{chunkOf("r").tokens(1), endOf("r", "error")},
			want:  []string{`r/0 1-2 "" [] tokens[1] partial reason="error"`},
		},
		{
			name:  "a full text, flags and attributes alone are nothing",
			steps: []step{chunkOf("r").text("abc").aborted(chunk.True).with(map[string]any{"model": "m"}), endOf("r", "error")},
			empty: 1,
		},
		{
			name:  "a final chunk is worth a record",
			steps: []step{chunkOf("r"), chunkOf("r").final()},
			want:  []string{`r/0 1-2 "" []`},
		},
	})
}

func TestExpire(t *testing.T) {
	runConversations(t, []conversationTest{
		{
			name:  "what had no chunk for so long, by the Collector's clock",
			steps: []step{chunkOf("a", "x").at(100), chunkOf("b", "x").at(50), chunkOf("c", "x").at(70), idleFor(2)},
			want:  []string{`a/0 100-4 "x" ["x"] partial reason="idle_timeout"`, `b/0 50-4 "x" ["x"] partial reason="idle_timeout"`},
			left:  1,
		},
		{
			name:  "a chunk without text is a sign of life",
			steps: []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a"), idleFor(2)},
			want:  []string{`b/0 2-4 "x" ["x"] partial reason="idle_timeout"`},
			left:  1,
		},
		{name: "nothing to expire", steps: []step{idleFor(0)}},
		{name: "nothing idle for so long", steps: []step{chunkOf("a", "x"), idleFor(2)}, left: 1},
	})
}

func TestFlush(t *testing.T) {
	runConversations(t, []conversationTest{
		{
			name:  "the least recently updated first",
			steps: []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a", "y"), flush(9)},
			want:  []string{`b/0 2-4 "x" ["x"] partial reason="shutdown"`, `a/0 1-4 "xy" ["x" "y"] partial reason="shutdown"`},
		},
		{
			name:  "some at a time",
			steps: []step{chunkOf("a", "x"), chunkOf("b", "x"), flush(1)},
			want:  []string{`a/0 1-3 "x" ["x"] partial reason="shutdown"`},
			left:  1,
		},
		{name: "none", steps: []step{chunkOf("a", "x"), flush(0)}, left: 1},
		{name: "nothing there", steps: []step{flush(1)}},
	})
	c := begin(unlimited)
	c.say(chunkOf("a"), chunkOf("b"), chunkOf("c"))
	assert.True(t, c.table.Flush(2, 0))
	assert.False(t, c.table.Flush(1, 0), "the last one left")
	assert.False(t, c.table.Flush(1, 0))
}

func TestLeastRecent(t *testing.T) {
	c := begin(unlimited)
	_, ok := c.table.LeastRecent()
	assert.False(t, ok)
	c.say(chunkOf("a"), chunkOf("b"), chunkOf("a"))
	touched, ok := c.table.LeastRecent()
	assert.True(t, ok)
	assert.Equal(t, time.Unix(2, 0), touched, "when b came")
}

// TestCauses: who ended an output says with whose credentials its record may travel.
func TestCauses(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, test := range []struct {
		name     string
		limits   Options
		steps    []step
		cause    Cause
		ofSender bool
	}{
		{"its final chunk", unlimited, []step{chunkOf("a", "x").final()}, Finished, true},
		{"its request's end", unlimited, []step{chunkOf("a", "x"), endOf("a", "")}, RequestEnd, true},
		{"its own size", Options{Outputs: 9, Bytes: 1 << 30, OutputBytes: 9000}, []step{chunkOf("a", long)}, Evicted, true},
		{"the number of others", Options{Outputs: 1, Bytes: 1 << 30, OutputBytes: 1 << 30}, []step{chunkOf("a", "x"), chunkOf("b", "x")}, Evicted, false},
		{"the size of others", Options{Outputs: 9, Bytes: 15_000, OutputBytes: 1 << 30}, []step{chunkOf("a", long), chunkOf("b", long)}, Evicted, false},
		{"the size of what the caller holds", Options{Outputs: 9, Bytes: 15_000, OutputBytes: 1 << 30}, []step{chunkOf("a", long), hold(15_000), makeRoom{}}, Evicted, false},
		{"the clock", unlimited, []step{chunkOf("a", "x"), idleFor(0)}, Idle, false},
		{"a shutdown", unlimited, []step{chunkOf("a", "x"), flush(1)}, Shutdown, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := begin(test.limits)
			for _, s := range test.steps {
				s.do(c)
			}
			ended, _ := c.table.TakeEnded()
			require.Len(t, ended, 1)
			assert.Equal(t, test.cause, ended[0].Cause)
			assert.Equal(t, test.ofSender, ended[0].OfSender)
			assert.Positive(t, ended[0].Size())
		})
	}
}

func TestTakeEndedTakes(t *testing.T) {
	c := begin(unlimited)
	said, empty := c.say(chunkOf("a", "x").final(), chunkOf("b"), endOf("b", ""))
	assert.Len(t, said, 1)
	assert.Equal(t, 1, empty)
	said, empty = c.say()
	assert.Empty(t, said)
	assert.Zero(t, empty)
}

func TestOtherAttributes(t *testing.T) {
	type attributes = map[string]any
	runConversations(t, []conversationTest{
		{
			name: "the last value of each",
			steps: []step{
				chunkOf("r", "a").with(attributes{"model": "m", "tenant": "t", "n": int64(1)}),
				chunkOf("r", "b"),
				chunkOf("r", "c").with(attributes{"n": 2.5, "finish_reason": "stop"}).final(),
			},
			want: []string{`r/0 1-3 "abc" ["a" "b" "c"] map[finish_reason:stop model:m n:2.5 tenant:t]`},
		},
		{
			name: "of any type",
			steps: []step{
				chunkOf("r", "a").with(attributes{"a": []any{int64(1), "x"}, "b": true, "m": attributes{"k": []byte{1}}, "n": nil}).final(),
			},
			want: []string{`r/0 1-1 "a" ["a"] map[a:[1 x] b:true m:map[k:[1]] n:<nil>]`},
		},
		{
			name: "none of the contract's, and none in its place",
			steps: []step{
				chunkOf("r", "a").with(attributes{
					contract.RequestID: "r", contract.TextDiff: "a", contract.Frames: "f", contract.Namespace + "new": "n",
					contract.AttributeEventName: contract.EventChunk, "model": "m",
				}).final(),
			},
			want: []string{`r/0 1-1 "a" ["a"] map[model:m]`},
		},
		{
			name:  "of one output, not of another",
			steps: []step{chunkOf("r", "a").with(attributes{"model": "m"}), chunkOf("r", "b").index(1).final()},
			want:  []string{`r/1 2-2 "b" ["b"]`},
			left:  1,
		},
		{
			name: "a value that is too large takes the one before with it",
			steps: []step{
				chunkOf("r", "a").with(attributes{"k": "small", "l": "stays"}),
				chunkOf("r", "b").with(attributes{"k": strings.Repeat("x", MaxOthersBytes)}).final(),
			},
			want: []string{`r/0 1-2 "ab" ["a" "b"] map[l:stays]`},
		},
		{
			name: "and makes room for others",
			steps: []step{
				chunkOf("r", "a").with(attributes{"k": strings.Repeat("x", MaxOthersBytes-100)}),
				chunkOf("r", "b").with(attributes{"l": strings.Repeat("x", 100)}), // no room
				chunkOf("r", "c").with(attributes{"k": "small"}),
				chunkOf("r", "d").with(attributes{"l": strings.Repeat("x", 10)}).final(),
			},
			want: []string{`r/0 1-4 "abcd" ["a" "b" "c" "d"] map[k:small l:xxxxxxxxxx]`},
		},
	})
}

func TestNumberOfOtherAttributes(t *testing.T) {
	many := map[string]any{}
	for i := range MaxOthers {
		many[fmt.Sprint("k", i)] = int64(i)
	}
	c := begin(unlimited)
	c.say(chunkOf("r", "a").with(many), chunkOf("r", "b").with(map[string]any{"one too many": "x", "k0": "still changes"}))
	chunkOf("r", "c").final().do(c)
	ended, _ := c.table.TakeEnded()
	require.Len(t, ended, 1)
	got := pcommon.NewMap()
	ended[0].PutOthers(got)
	many["k0"] = "still changes"
	assert.Equal(t, many, got.AsRaw())
}

// The bounds hold whatever comes, and what is counted is what is kept.
func TestSizeOfOtherAttributes(t *testing.T) {
	c := begin(unlimited)
	for i := range 500 {
		key, size := fmt.Sprint("k", i%100), i*7919%3000
		chunkOf("r", "a").with(map[string]any{key: strings.Repeat("x", size), "model": int64(i)}).do(c)
	}
	require.Len(t, c.table.outputs, 1)
	for _, o := range c.table.outputs {
		assert.LessOrEqual(t, o.others.values.Len(), MaxOthers)
		assert.LessOrEqual(t, o.others.size, int64(MaxOthersBytes))
		fresh := others{}
		fresh.absorb(o.others.values)
		assert.Equal(t, fresh.size, o.others.size)
	}
}

func TestScopeAndTraceOfTheFirstChunk(t *testing.T) {
	table := NewTable(unlimited)
	add := func(from *From, span byte, final bool) {
		c := chunkOf("r", "a").Chunk
		c.IsFinal = final
		table.Add(from, signal.Trace{SpanID: pcommon.SpanID{span}, State: "s"}, &c, time.Time{})
	}
	first, second := begin(unlimited).from("x"), begin(unlimited).from("x")
	first.Scope.Scope.SetName("first")
	second.Scope.Scope.SetName("second")
	add(first, 1, false)
	add(second, 2, true)
	ended, _ := table.TakeEnded()
	require.Len(t, ended, 1)
	assert.Equal(t, signal.Trace{SpanID: pcommon.SpanID{1}, State: "s"}, ended[0].Trace())
	assert.True(t, ended[0].Scope().Equal(first.Scope))
	assert.Greater(t, ended[0].ScopeSize(), first.Scope.Size())
	checkInvariants(t, table)
}

// Records of outputs that began in the same scope share it, so that batches of them can, too.
func TestScopesAreShared(t *testing.T) {
	table := NewTable(unlimited)
	scopeOf := func(request string, from *From) *signal.Scope {
		table.Add(from, signal.Trace{}, &chunk.Chunk{RequestID: request, Frames: []string{"a"}}, time.Time{})
		table.Add(from, signal.Trace{}, &chunk.Chunk{RequestID: request, Frames: []string{"a"}, IsFinal: true}, time.Time{})
		ended, _ := table.TakeEnded()
		require.Len(t, ended, 1)
		return ended[0].Scope()
	}
	from, again, changed := begin(unlimited).from("x"), begin(unlimited).from("x"), begin(unlimited).from("x")
	changed.Scope.Resource.Attributes().PutStr("k8s.pod.name", "p")

	table.Add(from, signal.Trace{}, &chunk.Chunk{RequestID: "in flight", Frames: []string{"a"}}, time.Time{})
	scope := scopeOf("a", from)
	assert.Same(t, scope, scopeOf("b", from), "from the same batch")
	assert.Same(t, scope, scopeOf("c", again), "from another batch")
	assert.NotSame(t, scope, scopeOf("d", changed), "from another resource, if of the same source")
	assert.NotSame(t, scope, &from.Scope, "nothing of the batch is kept")
	table.Flush(9, 0)
	checkInvariants(t, table)
}

// The batch that a chunk was in is released, or changed by others, once the chunk was added.
func TestNothingOfTheBatchIsKept(t *testing.T) {
	c := begin(unlimited)
	said := chunkOf("r", "a").with(map[string]any{"model": "m"})
	said.do(c)
	said.Attributes.PutStr("model", "changed")
	said.Frames[0] = "changed"
	c.from("").Scope.Resource.Attributes().PutStr(contract.InstanceID, "changed")
	chunkOf("r").final().do(c)

	ended, _ := c.table.TakeEnded()
	require.Len(t, ended, 1)
	assert.Equal(t, `r/0 0-0 "a" ["a"] map[model:m]`, show(&ended[0]))
	instance, _ := ended[0].Scope().Resource.Attributes().Get(contract.InstanceID)
	assert.Equal(t, "", instance.Str())
}

// A record may be made more than once: for each attempt to deliver it.
func TestRecordTwice(t *testing.T) {
	c := begin(unlimited)
	for _, s := range []step{chunkOf("r", "a").text("A long text that is not its frames"), chunkOf("r", "b"), chunkOf("r", "c").final()} {
		s.do(c)
	}
	ended, _ := c.table.TakeEnded()
	require.Len(t, ended, 1)
	first := recordOf(&ended[0])
	assert.Equal(t, first, recordOf(&ended[0]))
	assert.Equal(t, "A long text that is not its framesbc", first.Text)
}
