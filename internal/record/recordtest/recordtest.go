// Package recordtest has what tests and benchmarks of lines share.
package recordtest // import "github.com/otel-rawoutput/rawoutput/internal/record/recordtest"

import "unicode/utf8"

// Line is the line as a reader has it, and as a JSON library writes it.
type Line struct {
	Event            string   `json:"event"`
	RequestID        string   `json:"request_id"`
	DisaggRequestID  *string  `json:"disagg_request_id"`
	OutputIndex      uint32   `json:"output_index"`
	StartedAt        string   `json:"started_at"`
	FinishedAt       string   `json:"finished_at"`
	Streaming        bool     `json:"streaming"`
	Aborted          bool     `json:"aborted"`
	Partial          bool     `json:"partial"`
	EndReason        *string  `json:"end_reason"`
	Text             string   `json:"text"`
	Frames           []string `json:"frames"`
	FramesConsistent bool     `json:"frames_consistent"`
	TokenIDs         []uint32 `json:"token_ids"`
	NumOutputTokens  int      `json:"num_output_tokens"`
}

// Texts are what models write, from the cheapest to encode to the dearest.
var Texts = []struct{ Name, Sample string }{
	{"ascii", "The quick brown fox jumps over the lazy dog. "},
	{"cjk", "吾輩は猫である。名前はまだ無い。"},
	{"json", "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"},
	{"escapes", "{\"a\": \"b\\c\"}\n\t"},
}

// Sizes are of texts, in bytes.
var Sizes = []int{500, 4 << 10, 32 << 10}

const frameBytes = 20 // about what a chunk of a few tokens adds

// Frames cuts a text into frames of some 20 bytes, between characters, and gives each a token.
func Frames(text string) (frames []string, tokenIDs []uint32) {
	for text != "" {
		n := min(frameBytes, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		frames, tokenIDs, text = append(frames, text[:n]), append(tokenIDs, 12345), text[n:]
	}
	return frames, tokenIDs
}
