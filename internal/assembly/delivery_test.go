package assembly

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
)

// remembering are limits that no conversation comes near, also of outputs that are remembered.
var remembering = Options{Outputs: 1000, Bytes: 1 << 40, OutputBytes: 1 << 40, Remembered: 1000}

// few are those with room for so many outputs and request ends.
func few(outputs int) Options {
	options := remembering
	options.Outputs = outputs
	return options
}

// rememberingAll gives each test that says nothing else the limits of remembering.
func rememberingAll(tests []conversationTest) []conversationTest {
	for i := range tests {
		if tests[i].limits == (Options{}) {
			tests[i].limits = remembering
		}
	}
	return tests
}

// n is a record of one chunk of r/0 with its number.
func n(index uint32, frame string) *saidChunk { return chunkOf("r", frame).number(index) }

func TestOrder(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:  "in order",
			steps: []step{n(0, "a"), n(1, "b"), n(2, "c").final()},
			want:  []string{`r/0 1-3 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "backwards: its times are those of the first and the final chunk, not of what came first and last",
			steps: []step{n(2, "c").at(30).final(), n(1, "b").at(20), n(0, "a").at(10)},
			want:  []string{`r/0 10-30 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "the final chunk before the last but one",
			steps: []step{n(0, "a"), n(2, "c").final(), n(1, "b")},
			want:  []string{`r/0 1-2 "abc" ["a" "b" "c"]`},
		},
		{
			name: "a record with several chunks covers that many indexes",
			steps: []step{
				chunkOf("r", "d", "", "f").number(3), chunkOf("r", "g").number(6).final(), chunkOf("r", "a", "b", "c").number(0),
			},
			want: []string{`r/0 3-2 "abcdfg" ["a" "b" "c" "d" "f" "g"]`},
		},
		{
			name: "the last known value is that in the output's order",
			steps: []step{
				n(2, "c").streaming(chunk.False).with(map[string]any{"k": "last", "l": "m"}),
				n(1, "b").streaming(chunk.True).aborted(chunk.True).disagg("d").with(map[string]any{"k": "middle"}),
				n(0, "a").aborted(chunk.False).disagg("e").with(map[string]any{"k": "first", "f": "g"}),
				n(3, "d").final(),
			},
			want: []string{`r/0 3-4 "abcd" ["a" "b" "c" "d"] aborted disagg=d map[f:g k:last l:m]`},
		},
		{
			name:  "so is the latest full text, and what comes after it",
			steps: []step{n(1, "b").text("AB"), n(2, "c"), n(0, "a").text("A"), n(3, "d").final()},
			want:  []string{`r/0 3-4 "ABcd" ["a" "b" "c" "d"] inconsistent`},
		},
		{
			name:  "token ids",
			steps: []step{n(1, "").tokens(3), n(0, "").tokens(1, 2), n(2, "").tokens(4).final()},
			want:  []string{`r/0 2-3 "" [] tokens[1 2 3 4]`},
		},
		{
			name:  "scope and trace are those of the lowest index that came",
			steps: []step{n(2, "c").in("third", 3), n(1, "b").in("second", 2), n(4, "e").in("fifth", 5).final(), giveUp(0)},
			want: []string{
				`r/0 2-3 "bce" ["b" "c" "e"] partial reason="chunks_missing" inconsistent missing=2 in second/2`,
			},
			missing: 2,
		},
		{
			name:  "and of the first one when that came last",
			steps: []step{n(2, "c").in("x", 3).final(), n(1, "b").in("x", 2), n(0, "a").in("y", 1)},
			want:  []string{`r/0 3-1 "abc" ["a" "b" "c"] in y/1`},
		},
		{
			name:  "an unnumbered chunk comes after all that came",
			steps: []step{n(0, "a"), n(2, "c"), chunkOf("r", "d"), n(1, "b"), n(4, "e").final()},
			want:  []string{`r/0 1-5 "abcde" ["a" "b" "c" "d" "e"]`},
		},
		{
			name:  "outputs have numbers of their own",
			steps: []step{n(1, "b").final(), n(1, "y").index(1).final(), n(0, "x").index(1), n(0, "a")},
			want:  []string{`r/1 3-2 "xy" ["x" "y"]`, `r/0 4-1 "ab" ["a" "b"]`},
		},
		{
			name:   "a chunk that waits is an update",
			limits: few(2),
			steps:  []step{chunkOf("a", "x"), chunkOf("b", "x"), chunkOf("a", "y").number(5), chunkOf("c", "x")},
			want:   []string{`b/0 2-4 "x" ["x"] partial reason="evicted"`},
			left:   2,
		},
		{
			name:   "what has to wait for the chunks before its first needs room",
			limits: few(1),
			steps:  []step{chunkOf("a", "x"), n(1, "b").final(), n(0, "a")},
			want:   []string{`a/0 1-2 "x" ["x"] partial reason="evicted"`, `r/0 3-2 "ab" ["a" "b"]`},
		},
	}))
}

func TestCopies(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:      "of chunks in order",
			steps:     []step{n(0, "a"), n(0, "a"), n(1, "b"), n(0, "a"), n(1, "b"), n(2, "c").final()},
			want:      []string{`r/0 1-6 "abc" ["a" "b" "c"] duplicates=3`},
			duplicate: 3,
		},
		{
			name:      "of chunks that wait",
			steps:     []step{n(2, "c"), n(2, "c"), n(1, "b"), n(2, "c"), n(0, "a"), n(3, "d").final()},
			want:      []string{`r/0 5-6 "abcd" ["a" "b" "c" "d"] duplicates=2`},
			duplicate: 2,
		},
		{
			name:      "of a final chunk that waits",
			steps:     []step{n(1, "b").final(), n(1, "b").final(), n(0, "a")},
			want:      []string{`r/0 3-1 "ab" ["a" "b"] duplicates=1`},
			duplicate: 1,
		},
		{
			name:      "of a record with several chunks count each",
			steps:     []step{chunkOf("r", "a", "b").number(0), chunkOf("r", "a", "b").number(0), n(2, "c").final()},
			want:      []string{`r/0 1-3 "abc" ["a" "b" "c"] duplicates=2`},
			duplicate: 2,
		},
		{
			name:      "are known by the first index and the number of chunks: the first stays",
			steps:     []step{n(0, "a"), n(0, "A").at(1), n(1, "b").final()},
			want:      []string{`r/0 1-3 "ab" ["a" "b"] duplicates=1`},
			duplicate: 1,
		},
		{
			name:        "what overlaps otherwise conflicts",
			steps:       []step{chunkOf("r", "a", "b").number(0), n(1, "B"), chunkOf("r", "b", "c").number(1), n(2, "c").final()},
			want:        []string{`r/0 1-4 "abc" ["a" "b" "c"]`},
			conflicting: 3,
		},
		{
			name:        "so does what lies beyond the final chunk, and a second one",
			steps:       []step{n(0, "a"), n(2, "c").final(), n(3, "d"), n(1, "B").final(), n(1, "b")},
			want:        []string{`r/0 1-2 "abc" ["a" "b" "c"]`},
			conflicting: 2,
		},
		{
			name:        "and a final chunk below what came",
			steps:       []step{n(0, "a"), n(3, "d"), n(1, "B").final(), n(1, "b"), n(2, "c"), n(4, "").final()},
			want:        []string{`r/0 1-6 "abcd" ["a" "b" "c" "d"]`},
			conflicting: 1,
		},
		{
			name:      "are no update",
			limits:    few(2),
			steps:     []step{n(0, "a"), chunkOf("b", "x"), n(0, "a"), chunkOf("c", "x")},
			want:      []string{`r/0 1-4 "a" ["a"] partial reason="evicted" duplicates=1`},
			duplicate: 1,
			left:      2,
		},
		{
			name:      "nor keep an output from being idle",
			steps:     []step{n(0, "a"), n(0, "a"), n(0, "a"), idleFor(3)},
			want:      []string{`r/0 1-4 "a" ["a"] partial reason="idle_timeout" duplicates=2`},
			duplicate: 2,
		},
		{
			name:  "there are none of unnumbered chunks",
			steps: []step{chunkOf("r", "a"), chunkOf("r", "a"), chunkOf("r", "a").final()},
			want:  []string{`r/0 1-3 "aaa" ["a" "a" "a"]`},
		},
	}))
}

func TestLate(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:  "copies after the final chunk",
			steps: []step{n(0, "a"), n(1, "b").final(), n(0, "a").at(1), n(1, "b").at(2).final()},
			want:  []string{`r/0 1-2 "ab" ["a" "b"]`},
			late:  2,
		},
		{
			name:  "copies after an end",
			steps: []step{n(0, "a"), n(1, "b"), endOf("r", "error"), n(0, "a").at(1), n(1, "b").at(2)},
			want:  []string{`r/0 1-3 "ab" ["a" "b"] partial reason="error"`},
			late:  2,
		},
		{
			name:    "a chunk that was missing",
			steps:   []step{n(0, "a"), n(2, "c").final(), giveUp(1), n(1, "b").at(2)},
			want:    []string{`r/0 1-2 "ac" ["a" "c"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
			late:    1,
		},
		{
			name:    "a first chunk that was missing, whenever that was",
			steps:   []step{n(1, "b").at(50), n(2, "c").at(60).final(), giveUp(1), n(0, "a").at(10)},
			want:    []string{`r/0 50-60 "bc" ["b" "c"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
			late:    1,
		},
		{
			name:  "by the times of all chunks, also where the clocks ran back",
			steps: []step{n(0, "a").at(20), n(1, "b").at(10), n(2, "c").at(30), n(3, "d").at(15).final(), n(1, "b").at(10), n(2, "c").at(30)},
			want:  []string{`r/0 20-15 "abcd" ["a" "b" "c" "d"]`},
			late:  2,
		},
		{
			name:  "not of another source, request or output",
			steps: []step{n(0, "a").final(), n(0, "a").at(1).by("x"), chunkOf("s", "a").number(0).at(1), n(0, "a").at(1).index(1)},
			want:  []string{`r/0 1-1 "a" ["a"]`},
			left:  3,
		},
		{
			name:  "not of one that ended empty either",
			steps: []step{n(0, ""), endOf("r", ""), n(0, "").at(1)},
			empty: 1,
			late:  1,
		},
		{
			name:  "an unnumbered chunk never is",
			steps: []step{chunkOf("r", "a"), chunkOf("r", "b").final(), chunkOf("r", "a").at(1), chunkOf("r", "b").at(2).final()},
			want:  []string{`r/0 1-2 "ab" ["a" "b"]`, `r/0 1-2 "ab" ["a" "b"]`},
		},
		{
			name:   "nothing is where nothing is remembered",
			limits: unlimited,
			steps:  []step{n(0, "a").final(), n(0, "a").at(1).final()},
			want:   []string{`r/0 1-1 "a" ["a"]`, `r/0 1-1 "a" ["a"]`},
		},
		{
			name:   "what ended longest ago is forgotten",
			limits: Options{Outputs: 9, Bytes: 1 << 40, OutputBytes: 1 << 40, Remembered: 2},
			steps: []step{
				n(0, "a").final(), n(0, "b").index(1).final(), n(0, "c").index(2).final(),
				n(0, "c").index(2).at(3).final(), n(0, "b").index(1).at(2).final(), n(0, "a").at(1).final(),
			},
			want: []string{`r/0 1-1 "a" ["a"]`, `r/1 2-2 "b" ["b"]`, `r/2 3-3 "c" ["c"]`, `r/0 1-1 "a" ["a"]`},
			late: 2,
		},
	}))
}

// Engines use their ids again after a restart.
func TestReusedIDs(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:  "after the end",
			steps: []step{n(0, "a"), n(1, "b").final(), n(0, "x"), n(1, "y").final()},
			want:  []string{`r/0 1-2 "ab" ["a" "b"]`, `r/0 3-4 "xy" ["x" "y"]`},
		},
		{
			name:  "before the begin: clocks are set back",
			steps: []step{n(0, "a").at(11), n(1, "b").at(12).final(), n(0, "x").at(1), n(1, "y").at(2).final()},
			want:  []string{`r/0 11-12 "ab" ["a" "b"]`, `r/0 1-2 "xy" ["x" "y"]`},
		},
		{
			name:  "in disorder",
			steps: []step{n(0, "a").final(), n(1, "y").final(), n(0, "x")},
			want:  []string{`r/0 1-1 "a" ["a"]`, `r/0 3-2 "xy" ["x" "y"]`},
		},
		{
			name:  "copies of the first use come while the second is in flight",
			steps: []step{n(0, "a"), n(1, "b").final(), n(1, "y"), n(0, "a").at(1), n(0, "x"), n(1, "b").at(2).final(), n(2, "z").final()},
			want:  []string{`r/0 1-2 "ab" ["a" "b"]`, `r/0 5-7 "xyz" ["x" "y" "z"]`},
			late:  2,
		},
		{
			name: "copies of any use before come after the last",
			steps: []step{
				n(0, "a").final(), n(0, "b").at(11).final(), n(0, "c").at(21).final(), n(0, "d").at(31).final(), n(0, "e").at(41).final(),
				n(0, "a").at(1).final(), n(0, "b").at(11).final(), n(0, "c").at(21).final(), n(0, "e").at(41).final(),
				n(0, "f").at(45).final(),
			},
			want: []string{
				`r/0 1-1 "a" ["a"]`, `r/0 11-11 "b" ["b"]`, `r/0 21-21 "c" ["c"]`, `r/0 31-31 "d" ["d"]`, `r/0 41-41 "e" ["e"]`,
				`r/0 45-45 "f" ["f"]`,
			},
			late: 4,
		},
		{
			name:    "a hole of the first use is not filled by the second",
			steps:   []step{n(0, "a"), n(2, "c").final(), giveUp(0), n(1, "y"), n(0, "x"), n(2, "z").final()},
			want:    []string{`r/0 1-2 "ac" ["a" "c"] partial reason="chunks_missing" inconsistent missing=1`, `r/0 5-6 "xyz" ["x" "y" "z"]`},
			missing: 1,
		},
		{
			name:   "after an eviction, from 0 on",
			limits: few(1),
			steps:  []step{n(0, "a"), n(1, "b"), chunkOf("x", "x").at(3).final(), chunkOf("y", "y").at(4), n(0, "c").at(9).final()},
			want:   []string{`x/0 3-3 "x" ["x"]`, `r/0 1-4 "ab" ["a" "b"] partial reason="evicted"`, `r/0 9-9 "c" ["c"]`},
			left:   1,
		},
		{
			name:   "after an eviction, in disorder, the last chunk goes on with the first use; the others begin anew",
			limits: few(1),
			steps:  []step{n(0, "a"), n(1, "b"), chunkOf("x", "x").at(3), n(2, "z").at(13).final(), n(0, "x").at(11), n(1, "y").at(12)},
			want: []string{
				`r/0 1-3 "ab" ["a" "b"] partial reason="evicted"`, `r/0 13-13 "z" ["z"]`, `x/0 3-11 "x" ["x"] partial reason="evicted"`,
			},
			left: 1,
		},
	}))
}

func TestGoesOn(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:   "after an eviction, without a hole",
			limits: few(1),
			steps:  []step{n(0, "a"), n(1, "b"), chunkOf("x", "x"), n(2, "c"), n(3, "d").final()},
			want: []string{
				`r/0 1-3 "ab" ["a" "b"] partial reason="evicted"`, `x/0 3-4 "x" ["x"] partial reason="evicted"`, `r/0 4-5 "cd" ["c" "d"]`,
			},
		},
		{
			name:  "after it was idle",
			steps: []step{n(0, "a"), n(1, "b"), idleFor(0), n(2, "c").final()},
			want:  []string{`r/0 1-3 "ab" ["a" "b"] partial reason="idle_timeout"`, `r/0 4-4 "c" ["c"]`},
		},
		{
			name:  "in disorder",
			steps: []step{n(0, "a"), idleFor(0), n(2, "c").final(), n(1, "b")},
			want:  []string{`r/0 1-2 "a" ["a"] partial reason="idle_timeout"`, `r/0 4-3 "bc" ["b" "c"]`},
		},
		{
			name:    "what does not come is missing",
			steps:   []step{n(0, "a"), idleFor(0), n(2, "c").final(), giveUp(0)},
			want:    []string{`r/0 1-2 "a" ["a"] partial reason="idle_timeout"`, `r/0 3-3 "c" ["c"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:  "copies of what was evicted are late, whether it goes on already or not",
			steps: []step{n(0, "a"), n(1, "b"), idleFor(0), n(1, "b").at(2), n(2, "c"), n(0, "a").at(1), n(3, "d").final()},
			want:  []string{`r/0 1-3 "ab" ["a" "b"] partial reason="idle_timeout"`, `r/0 5-7 "cd" ["c" "d"]`},
			late:  2,
		},
		{
			name:  "or has ended",
			steps: []step{n(0, "a"), n(1, "b"), idleFor(0), n(2, "c").final(), n(0, "a").at(1), n(1, "b").at(2), n(2, "c").at(4).final()},
			want:  []string{`r/0 1-3 "ab" ["a" "b"] partial reason="idle_timeout"`, `r/0 4-4 "c" ["c"]`},
			late:  3,
		},
		{
			name: "or was cut again, and goes on, and ends",
			steps: []step{
				n(0, "a"), idleFor(0), n(1, "b"), idleFor(0), n(0, "a").at(1), n(2, "c").final(), n(0, "a").at(1), n(1, "b").at(3),
			},
			want: []string{
				`r/0 1-2 "a" ["a"] partial reason="idle_timeout"`, `r/0 3-4 "b" ["b"] partial reason="idle_timeout"`, `r/0 6-6 "c" ["c"]`,
			},
			late: 3,
		},
		{
			name:        "a record across the cut conflicts",
			steps:       []step{n(0, "a"), n(1, "b"), idleFor(0), n(2, "c"), chunkOf("r", "b", "c").number(1), n(3, "d").final()},
			want:        []string{`r/0 1-3 "ab" ["a" "b"] partial reason="idle_timeout"`, `r/0 4-6 "cd" ["c" "d"]`},
			conflicting: 2,
		},
		{
			name:  "an output with a hole that was cut has what came; the chunk in the hole is late",
			steps: []step{n(0, "a"), n(2, "c"), idleFor(0), n(1, "b").at(1), n(3, "d").final()},
			want: []string{
				`r/0 1-3 "ac" ["a" "c"] partial reason="idle_timeout" inconsistent missing=1`, `r/0 5-5 "d" ["d"]`,
			},
			missing: 1,
			late:    1,
		},
		{
			name:  "not after an end, a final chunk or missing chunks",
			steps: []step{n(0, "a"), endOf("r", "error"), n(1, "b").at(1), n(2, "c").at(9), n(1, "b").at(8), n(0, "a").at(7), endOf("r", "").at(10)},
			want:  []string{`r/0 1-2 "a" ["a"] partial reason="error"`, `r/0 7-10 "abc" ["a" "b" "c"] partial reason=""`},
			late:  1,
		},
		{
			name:  "an unnumbered chunk begins anew",
			steps: []step{n(0, "a"), idleFor(0), chunkOf("r", "b"), n(1, "c").final()},
			want:  []string{`r/0 1-2 "a" ["a"] partial reason="idle_timeout"`, `r/0 3-4 "bc" ["b" "c"]`},
		},
		{
			name:   "an output that is over its own limit is cut, and goes on",
			limits: Options{Outputs: 9, Bytes: 1 << 40, OutputBytes: 5000, Remembered: 9},
			steps:  []step{n(0, long(6000)), n(1, "b").final()},
			want:   []string{`r/0 1-1 "x"*6000 ["x"*6000] partial reason="evicted"`, `r/0 2-2 "b" ["b"]`},
		},
		{
			name:   "chunks that wait count into that limit",
			limits: Options{Outputs: 9, Bytes: 1 << 40, OutputBytes: 5000, Remembered: 9},
			steps:  []step{n(0, "a"), n(2, long(6000)), n(3, "d").final()},
			want: []string{
				`r/0 1-2 "a"*6001 ["a" "x"*6000] partial reason="evicted" inconsistent missing=1`, `r/0 3-3 "d" ["d"]`,
			},
			missing: 1,
		},
	}))
}

func long(bytes int) string { return strings.Repeat("x", bytes) }

func TestChunksMissing(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:  "it waits as long as it may",
			steps: []step{n(0, "a"), n(2, "c").final(), giveUp(2)},
			left:  1,
		},
		{
			name:  "from its final chunk on, whatever comes after",
			steps: []step{n(0, "a"), n(4, "e").final(), n(1, "b"), n(2, "c"), giveUp(3)},
			want: []string{
				`r/0 1-2 "abce" ["a" "b" "c" "e"] partial reason="chunks_missing" inconsistent missing=1`,
			},
			missing: 1,
		},
		{
			name:    "with the server's full text, where that came",
			steps:   []step{n(0, "a"), n(2, "c").text("abc").final(), giveUp(0)},
			want:    []string{`r/0 1-2 "abc" ["a" "c"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:    "a full text before the hole, and the frames after it",
			steps:   []step{n(0, "a"), n(1, "b").text("AB"), n(3, "d").final(), giveUp(0)},
			want:    []string{`r/0 1-3 "ABd" ["a" "b" "d"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:    "a full text after the hole, and the frames after it",
			steps:   []step{n(0, "a"), n(2, "c").text("abc"), n(3, "d").final(), giveUp(0)},
			want:    []string{`r/0 1-3 "abcd" ["a" "c" "d"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:    "inconsistent also where the text is the frames: a chunk without text may have had tokens",
			steps:   []step{n(0, "a"), n(2, "b").text("ab").final(), giveUp(0)},
			want:    []string{`r/0 1-2 "ab" ["a" "b"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:    "without its first chunks",
			steps:   []step{n(3, "d").at(10), n(4, "e").at(11).final(), giveUp(0)},
			want:    []string{`r/0 10-11 "de" ["d" "e"] partial reason="chunks_missing" inconsistent missing=3`},
			missing: 3,
		},
		{
			name:    "with nothing but its final chunk",
			steps:   []step{n(3, "").final(), giveUp(0)},
			want:    []string{`r/0 1-1 "" [] partial reason="chunks_missing" inconsistent missing=3`},
			missing: 3,
		},
		{
			name:    "with several holes",
			steps:   []step{n(1, "b"), n(3, "d"), n(9, "j").final(), giveUp(0)},
			want:    []string{`r/0 1-3 "bdj" ["b" "d" "j"] partial reason="chunks_missing" inconsistent missing=7`},
			missing: 7,
		},
		{
			name:  "those that wait longest first, and only those that wait long enough",
			steps: []step{n(1, "b").index(1).final(), n(1, "b").index(2).final(), n(1, "b").index(3).final(), giveUp(2)},
			want: []string{
				`r/1 1-1 "b" ["b"] partial reason="chunks_missing" inconsistent missing=1`,
				`r/2 2-2 "b" ["b"] partial reason="chunks_missing" inconsistent missing=1`,
			},
			missing: 2,
			left:    1,
		},
		{
			name:  "a hole alone is no wait: the final chunk has not come",
			steps: []step{n(0, "a"), n(2, "c"), giveUp(0)},
			left:  1,
		},
		{
			name:    "idle with a hole, without a final chunk",
			steps:   []step{n(0, "a"), n(2, "c"), idleFor(0)},
			want:    []string{`r/0 1-3 "ac" ["a" "c"] partial reason="idle_timeout" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:    "idle with a hole and a final chunk",
			steps:   []step{n(0, "a"), n(2, "c").final(), idleFor(0)},
			want:    []string{`r/0 1-2 "ac" ["a" "c"] partial reason="chunks_missing" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:   "evicted with a hole, without a final chunk and with it",
			limits: few(1),
			steps:  []step{n(0, "a"), n(2, "c"), chunkOf("s", "x").number(0), chunkOf("s", "y").number(2).final(), chunkOf("t", "z")},
			want: []string{
				`r/0 1-3 "ac" ["a" "c"] partial reason="evicted" inconsistent missing=1`,
				`s/0 3-4 "xy" ["x" "y"] partial reason="chunks_missing" inconsistent missing=1`,
			},
			missing: 2,
			left:    1,
		},
		{
			name:  "shut down with a hole, without a final chunk and with it",
			steps: []step{n(0, "a"), n(2, "c"), n(1, "y").index(1).final(), flush(2)},
			want: []string{
				`r/1 3-3 "y" ["y"] partial reason="chunks_missing" inconsistent missing=1`,
				`r/0 1-4 "ac" ["a" "c"] partial reason="shutdown" inconsistent missing=1`,
			},
			missing: 2,
		},
		{
			name:  "a request end does not end it",
			steps: []step{n(0, "a"), n(2, "c").final(), endOf("r", "error"), n(1, "b")},
			want:  []string{`r/0 1-2 "abc" ["a" "b" "c"]`},
		},
		{
			name:    "what is missing counts also where nothing is to be written",
			steps:   []step{n(4, ""), endOf("r", "error")},
			empty:   1,
			missing: 4,
		},
	}))
}

func TestRequestEndsThatOvertake(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:  "all chunks of its only output",
			steps: []step{endOf("r", "error").at(10).counts(2), n(1, "b").at(9), n(0, "a").at(8)},
			want:  []string{`r/0 8-10 "ab" ["a" "b"] partial reason="error"`},
		},
		{
			name:  "some chunks",
			steps: []step{n(0, "a"), endOf("r", "error").at(10).counts(3), n(2, "c").at(9), n(1, "b").at(8)},
			want:  []string{`r/0 1-10 "abc" ["a" "b" "c"] partial reason="error"`},
		},
		{
			name:  "none",
			steps: []step{n(0, "a"), n(1, "b"), endOf("r", "error").counts(2)},
			want:  []string{`r/0 1-3 "ab" ["a" "b"] partial reason="error"`},
		},
		{
			name: "chunks of several outputs: all end at once, the least recently updated first",
			steps: []step{
				n(0, "a"), n(0, "x").index(1), endOf("r", "error").at(10).counts(2, 1, 1), n(0, "p").index(2).at(9), n(1, "b").at(9),
			},
			want: []string{
				`r/1 2-10 "x" ["x"] partial reason="error"`, `r/2 9-10 "p" ["p"] partial reason="error"`,
				`r/0 1-10 "ab" ["a" "b"] partial reason="error"`,
			},
		},
		{
			name:    "while one is missing, all wait",
			steps:   []step{n(0, "a"), endOf("r", "error").at(10).counts(1, 2), n(0, "x").index(1).at(9)},
			left:    2,
			waiting: 1,
		},
		{
			name:  "an output that had finished counts",
			steps: []step{n(0, "a"), n(1, "b").final(), n(0, "x").index(1), endOf("r", "error").at(10).counts(2, 2), n(1, "y").index(1).at(9)},
			want:  []string{`r/0 1-2 "ab" ["a" "b"]`, `r/1 3-10 "xy" ["x" "y"] partial reason="error"`},
		},
		{
			name:  "one whose final chunk comes meanwhile is finished",
			steps: []step{n(0, "x").index(1), endOf("r", "error").at(10).counts(2, 1), n(0, "a").at(7), n(1, "b").at(8).final()},
			want:  []string{`r/0 7-8 "ab" ["a" "b"]`, `r/1 1-10 "x" ["x"] partial reason="error"`},
		},
		{
			name: "one whose final chunk waits for others is not waited for",
			steps: []step{
				n(0, "x").index(1), endOf("r", "error").at(10).counts(3, 1), n(2, "c").at(8).final(), n(0, "a").at(6), n(1, "b").at(7),
			},
			want: []string{`r/1 1-10 "x" ["x"] partial reason="error"`, `r/0 6-8 "abc" ["a" "b" "c"]`},
		},
		{
			name:  "an output that had no chunks is not waited for",
			steps: []step{n(0, "a"), endOf("r", "error").at(10).counts(0, 1, 0), n(0, "x").index(1).at(9)},
			want:  []string{`r/0 1-10 "a" ["a"] partial reason="error"`, `r/1 9-10 "x" ["x"] partial reason="error"`},
		},
		{
			name:    "counts that are never met: it takes effect when it has waited long enough",
			steps:   []step{n(0, "a"), endOf("r", "error").counts(4), n(2, "c").at(2), giveUp(2)},
			want:    []string{`r/0 1-2 "ac" ["a" "c"] partial reason="error" inconsistent missing=2`},
			missing: 2,
		},
		{
			name:    "not before",
			steps:   []step{n(0, "a"), endOf("r", "error").counts(4), giveUp(2)},
			left:    1,
			waiting: 1,
		},
		{
			name:    "also where the last chunk is what did not come",
			steps:   []step{n(0, "a"), endOf("r", "error").counts(2), giveUp(0)},
			want:    []string{`r/0 1-2 "a" ["a"] partial reason="error" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:  "of a request that was never seen: it leaves nothing",
			steps: []step{endOf("r", "error").counts(4), giveUp(0)},
		},
		{
			name:  "idle",
			steps: []step{n(0, "a"), endOf("r", "error").at(10).counts(2), n(0, "x").index(1).at(9), idleFor(1)},
			want: []string{
				`r/0 1-10 "a" ["a"] partial reason="error" inconsistent missing=1`, `r/1 9-10 "x" ["x"] partial reason="error"`,
			},
			missing: 1,
		},
		{
			name:    "an output that has all of its chunks and waits for others ends as the server said, also evicted",
			limits:  few(2),
			steps:   []step{n(0, "a"), endOf("r", "error").at(9).counts(1, 1), chunkOf("x", "x")},
			want:    []string{`r/0 1-9 "a" ["a"] partial reason="error"`},
			left:    1,
			waiting: 1,
		},
		{
			name:    "or idle",
			steps:   []step{n(0, "a"), n(0, "b").index(5), endOf("r", "error").at(9).counts(1, 1), idleFor(2)},
			want:    []string{`r/0 1-9 "a" ["a"] partial reason="error"`, `r/5 2-9 "b" ["b"] partial reason="error"`},
			waiting: 1,
		},
		{
			name:  "a copy of it is nothing to the next use of the id",
			steps: []step{n(0, "a"), endOf("r", "error").at(9).counts(1), n(0, "x").at(10), endOf("r", "error").at(9).counts(1)},
			want:  []string{`r/0 1-9 "a" ["a"] partial reason="error"`},
			left:  1,
		},
		{
			name:  "without counts it ends what is there",
			steps: []step{n(0, "a"), n(2, "c"), endOf("r", "error"), n(1, "b").at(2)},
			want:  []string{`r/0 1-3 "ac" ["a" "c"] partial reason="error" inconsistent missing=1`},
			late:  1, missing: 1,
		},
		{
			name:  "it never ends an output that began after it",
			steps: []step{endOf("r", "error").at(10).counts(2), n(0, "a").at(11), n(1, "b").at(12), giveUp(0)},
			left:  1,
		},
		{
			name:  "the begin is that of the lowest index, whenever it comes",
			steps: []step{n(1, "b").at(12), endOf("r", "error").at(10).counts(2), n(0, "a").at(9)},
			want:  []string{`r/0 9-10 "ab" ["a" "b"] partial reason="error"`},
		},
		{
			name:  "a later use of the id begins while it waits",
			steps: []step{n(0, "a").index(1), endOf("r", "error").at(3).counts(1, 1), n(0, "new").at(5), giveUp(0)},
			want:  []string{`r/1 1-3 "a" ["a"] partial reason="error"`},
			left:  1,
		},
		{
			name:  "an earlier use of the id does not meet the counts",
			steps: []step{n(0, "a"), n(1, "b").final(), n(0, "x"), endOf("r", "error").at(10).counts(2), n(1, "y").at(9)},
			want:  []string{`r/0 1-2 "ab" ["a" "b"]`, `r/0 3-10 "xy" ["x" "y"] partial reason="error"`},
		},
		{
			name:   "an output that was cut goes on",
			limits: few(2),
			steps: []step{
				n(0, "a"), endOf("r", "error").at(9).counts(2), chunkOf("x", "x"), chunkOf("x", "y").final(), n(1, "b").at(8),
			},
			want: []string{
				`r/0 1-3 "a" ["a"] partial reason="evicted"`, `x/0 3-4 "xy" ["x" "y"]`, `r/0 8-9 "b" ["b"] partial reason="error"`,
			},
		},
		{
			name:   "an output that is cut with a hole has all that may come",
			limits: few(3),
			steps: []step{
				n(0, "a"), n(2, "c"), n(0, "x").index(1), endOf("r", "error").at(9).counts(3, 1), chunkOf("s", "s"),
			},
			want: []string{
				`r/0 1-5 "ac" ["a" "c"] partial reason="evicted" inconsistent missing=1`,
				`r/1 3-9 "x" ["x"] partial reason="error"`,
			},
			left: 1, missing: 1,
		},
		{
			name:    "it counts into the limit",
			limits:  few(2),
			steps:   []step{chunkOf("a", "x"), endOf("r", "").counts(1), chunkOf("b", "x")},
			want:    []string{`a/0 1-3 "x" ["x"] partial reason="evicted"`},
			left:    1,
			waiting: 1,
		},
		{
			name:    "and when it comes, too",
			limits:  few(1),
			steps:   []step{chunkOf("a", "x"), endOf("r", "").at(9).counts(1)},
			want:    []string{`a/0 1-9 "x" ["x"] partial reason="evicted"`},
			waiting: 1,
		},
		{
			name:    "evicted, it takes effect",
			limits:  few(2),
			steps:   []step{n(0, "a"), endOf("r", "error").at(9).counts(3), n(1, "b").at(2), chunkOf("x", "x"), chunkOf("y", "y")},
			want:    []string{`r/0 1-9 "ab" ["a" "b"] partial reason="error" inconsistent missing=1`},
			missing: 1,
			left:    2,
		},
		{
			name:    "a copy changes nothing",
			steps:   []step{n(0, "a"), endOf("r", "error").at(9).counts(2), endOf("r", "error").at(9).counts(2)},
			left:    1,
			waiting: 1,
		},
		{
			name:  "nor does one that comes after it took effect",
			steps: []step{n(0, "a"), n(1, "b"), endOf("r", "error").at(9).counts(2), endOf("r", "error").at(9).counts(2)},
			want:  []string{`r/0 1-9 "ab" ["a" "b"] partial reason="error"`},
		},
		{
			name:    "a later one has it take effect",
			steps:   []step{n(0, "a"), endOf("r", "first").at(9).counts(2), endOf("r", "second").at(10).counts(2)},
			want:    []string{`r/0 1-9 "a" ["a"] partial reason="first" inconsistent missing=1`},
			missing: 1,
			waiting: 1,
		},
		{
			name:    "also where that has nothing to wait for",
			steps:   []step{n(0, "a"), endOf("r", "first").at(9).counts(2), endOf("r", "second").at(10)},
			want:    []string{`r/0 1-9 "a" ["a"] partial reason="first" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:    "an earlier one takes effect at once",
			steps:   []step{n(0, "a"), endOf("r", "later").at(9).counts(2), endOf("r", "earlier").at(8).counts(3)},
			want:    []string{`r/0 1-8 "a" ["a"] partial reason="earlier" inconsistent missing=2`},
			missing: 2,
			waiting: 1,
		},
		{
			name:    "shut down, it takes effect first: the server has said how its outputs end",
			steps:   []step{n(0, "a"), endOf("r", "error").at(9).counts(2), flush(1)},
			want:    []string{`r/0 1-9 "a" ["a"] partial reason="error" inconsistent missing=1`},
			missing: 1,
		},
		{
			name:    "a flush of one may leave it waiting",
			steps:   []step{n(1, "b").final(), endOf("s", "error").counts(2), flush(1)},
			want:    []string{`r/0 1-1 "b" ["b"] partial reason="chunks_missing" inconsistent missing=1`},
			waiting: 1,
			missing: 1,
		},
		{
			name:  "unnumbered chunks meet counts, too",
			steps: []step{chunkOf("r", "a"), endOf("r", "error").at(9).counts(2), chunkOf("r", "b").at(3)},
			want:  []string{`r/0 1-9 "ab" ["a" "b"] partial reason="error"`},
		},
		{
			name:    "of another source",
			steps:   []step{n(0, "a"), endOf("r", "error").by("x").counts(1), endOf("r", "error").by("x")},
			left:    1,
			waiting: 0,
		},
		{
			name:  "without a reason",
			steps: []step{endOf("r", "").at(9).counts(1), n(0, "a").at(3)},
			want:  []string{`r/0 3-9 "a" ["a"] partial reason=""`},
		},
		{
			name:  "nothing came of an output but chunks without text",
			steps: []step{endOf("r", "").at(9).counts(2), n(0, "").at(3), n(1, "").at(4)},
			empty: 1,
		},
		{
			name:    "one that is too large does not wait",
			limits:  Options{Outputs: 9, Bytes: 1 << 40, OutputBytes: 5000},
			steps:   []step{n(0, "a"), endOf("r", "error").counts(make([]uint32, 2000)...), endOf("r", long(6000)).at(3).counts(2)},
			want:    []string{`r/0 1-2 "a" ["a"] partial reason="error"`},
			missing: 0,
		},
	}))
}

func TestDeliveryCounts(t *testing.T) {
	c := begin(remembering)
	for _, s := range []step{
		chunkOf("r", "a", "b").number(0), n(5, "f"), chunkOf("r", "a", "b").number(0), n(0, "a"), n(5, "f"), n(7, "h").final(), giveUp(0),
		n(6, "g").at(6),
	} {
		c.second++
		s.do(c)
	}
	ended, tally := c.table.TakeEnded()
	require.Len(t, ended, 1)
	r := recordOf(&ended[0])
	assert.EqualValues(t, 4, r.Chunks.Value)
	assert.EqualValues(t, 4, r.MissingChunks.Value)
	assert.EqualValues(t, 3, r.DuplicateChunks.Value)
	assert.True(t, r.Chunks.Known && r.MissingChunks.Known && r.DuplicateChunks.Known)
	assert.Equal(t, Tally{MissingChunks: 4}, tally)
	assert.Equal(t, [Conflicting + 1]int{Accepted: 4, Duplicate: 3, Late: 1, Conflicting: 1}, c.outcomes)
}

// What emitters say to have dropped is cumulative, comes in any order and more than once.
func TestEmitterDropped(t *testing.T) {
	runConversations(t, rememberingAll([]conversationTest{
		{
			name:           "the highest number counts",
			steps:          []step{n(0, "a").dropped(3), n(1, "b").dropped(5), n(2, "c").dropped(4), n(3, "d"), n(4, "e").dropped(5)},
			left:           1,
			emitterDropped: 5,
		},
		{
			name:           "of each source",
			steps:          []step{n(0, "a").dropped(3), n(0, "b").by("x").dropped(4), n(1, "a").dropped(4), n(1, "b").by("x").dropped(4)},
			left:           2,
			emitterDropped: 8,
		},
		{
			name:           "whatever becomes of the chunk",
			steps:          []step{n(0, "a").dropped(1).final(), n(0, "a").at(1).dropped(2), chunkOf("s", "b", "c").number(0), chunkOf("s", "b").number(0).dropped(4)},
			want:           []string{`r/0 1-1 "a" ["a"]`},
			late:           1,
			conflicting:    1,
			left:           1,
			emitterDropped: 4,
		},
	}))
}

func TestFrameTimes(t *testing.T) {
	timed := remembering
	timed.FrameTimes = true
	runConversations(t, []conversationTest{
		{
			name:   "in microseconds after the first chunk, in the output's order; none of chunks without text",
			limits: timed,
			steps:  []step{n(2, "c").at(13), n(1, "").at(12), n(0, "a").at(10), n(3, "d").at(14).final()},
			want:   []string{`r/0 10-14 "acd" ["a" "c" "d"] times[0 3000000 4000000]`},
		},
		{
			name:   "of each chunk in a record",
			limits: timed,
			steps: []step{
				chunkOf("r", "c", "d").number(2).at(20).aged(500, 0), chunkOf("r", "a", "b").number(0).at(10).aged(2_000_000, 1), n(4, "e").at(21).final(),
			},
			want: []string{`r/0 8-21 "abcde" ["a" "b" "c" "d" "e"] times[0 1999999 11999500 12000000 13000000]`},
		},
		{
			name:    "after the first chunk that came, where the first did not",
			limits:  timed,
			steps:   []step{n(2, "c").at(13), n(1, "b").at(12), n(3, "d").at(14).final(), giveUp(0)},
			want:    []string{`r/0 12-14 "bcd" ["b" "c" "d"] partial reason="chunks_missing" inconsistent missing=1 times[0 1000000 2000000]`},
			missing: 1,
		},
		{
			name:   "a clock that ran back, and one that ran on for more than an hour",
			limits: timed,
			steps:  []step{n(0, "a").at(100), n(1, "b").at(10), n(2, "c").at(100_000).final()},
			want:   []string{`r/0 100-100000 "abc" ["a" "b" "c"] times[0 0 4294967295]`},
		},
		{
			name:   "none where they are not asked for",
			limits: remembering,
			steps:  []step{n(0, "a"), n(1, "b").final()},
			want:   []string{`r/0 1-2 "ab" ["a" "b"]`},
		},
	})
}

// An ended output must not keep the request end that waited for it, which nobody counts any more.
func TestEndedKeepsNoRequestEnd(t *testing.T) {
	c := begin(remembering)
	for _, s := range []step{n(0, "a"), endOf("r", "").at(9).counts(3), idleFor(1)} {
		c.second++
		s.do(c)
	}
	ended, _ := c.table.TakeEnded()
	require.Len(t, ended, 1)
	assert.Nil(t, ended[0].output.awaitedBy)
}

func TestWhoEndsWhatWaits(t *testing.T) {
	for _, test := range []struct {
		name     string
		limits   Options
		steps    []step
		cause    Cause
		ofSender bool
	}{
		{"its last missing chunk", remembering, []step{n(1, "b").final(), n(0, "a")}, Finished, true},
		{"the wait", remembering, []step{n(1, "b").final(), giveUp(0)}, ChunksMissing, false},
		{"others", few(1), []step{n(1, "b").final(), chunkOf("x")}, ChunksMissing, false},
		{"the clock", remembering, []step{n(1, "b").final(), idleFor(0)}, ChunksMissing, false},
		{"a shutdown", remembering, []step{n(1, "b").final(), flush(1)}, ChunksMissing, false},
		{"the last chunk for a request end", remembering, []step{endOf("r", "").at(9).counts(1), n(0, "b").at(1)}, RequestEnd, true},
		{"a later request end", remembering, []step{n(0, "b"), endOf("r", "").at(8).counts(2), endOf("r", "").at(9).counts(2)}, RequestEnd, true},
		{"the wait of a request end", remembering, []step{n(0, "b"), endOf("r", "").counts(2), giveUp(0)}, RequestEnd, false},
		{"others than a request end", few(2), []step{endOf("r", "").at(9).counts(2), n(0, "b"), chunkOf("x")}, RequestEnd, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := begin(test.limits)
			for _, s := range test.steps {
				c.second++
				s.do(c)
			}
			ended, _ := c.table.TakeEnded()
			require.Len(t, ended, 1)
			assert.Equal(t, test.cause, ended[0].Cause)
			assert.Equal(t, test.ofSender, ended[0].OfSender)
			checkInvariants(t, c.table)
		})
	}
}
