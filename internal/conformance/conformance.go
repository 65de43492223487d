// Package conformance reads the conformance cases (testdata/conformance): streams with the files that the original hook
// writes for them. Only tests use it.
package conformance // import "github.com/otel-rawoutput/rawoutput/internal/conformance"

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// Case is one case.
type Case struct {
	Name         string
	MaxPending   int
	LeftInFlight int // outputs that are still in flight at the end
	Events       []replay.Event
	Files        map[string]string // the expected lines of each hour
}

// Load reads all cases below a directory.
func Load(directory string) ([]Case, error) {
	folders, err := filepath.Glob(filepath.Join(directory, "*", "case.json"))
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("no cases in %s", directory)
	}
	var cases []Case
	for _, folder := range folders {
		c, err := load(filepath.Dir(folder))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func load(folder string) (Case, error) {
	description, err := os.ReadFile(filepath.Join(folder, "case.json"))
	if err != nil {
		return Case{}, err
	}
	var settings struct {
		MaxPending   int `json:"max_pending"`
		LeftInFlight int `json:"left_in_flight"`
	}
	if err := json.Unmarshal(description, &settings); err != nil {
		return Case{}, err
	}
	stream, err := os.ReadFile(filepath.Join(folder, "events.jsonl"))
	if err != nil {
		return Case{}, err
	}
	events, err := replay.Read(bytes.NewReader(stream))
	if err != nil {
		return Case{}, err
	}
	files, err := Files(filepath.Join(folder, "expected"))
	return Case{filepath.Base(folder), settings.MaxPending, settings.LeftInFlight, events, files}, err
}

// Files reads the hourly files below a directory: what they hold, by hour. There must be one file an hour.
func Files(directory string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "*", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		hour := filepath.Base(filepath.Dir(path))
		if _, twice := files[hour]; twice {
			return nil, fmt.Errorf("more than one file for %s", hour)
		}
		files[hour] = string(content)
	}
	return files, nil
}

// byShutdown is what the line of an output says that shutdown ended.
const byShutdown = `"end_reason":"shutdown"`

// WithoutShutdown returns the files without the lines of outputs that shutdown ended, and how many those were. A file that
// had no other lines is not in the result.
func WithoutShutdown(files map[string]string) (rest map[string]string, shutdown int) {
	rest = map[string]string{}
	for hour, content := range files {
		lines := slices.Collect(strings.Lines(content))
		kept := WithoutShutdownLines(lines)
		shutdown += len(lines) - len(kept)
		if len(kept) > 0 {
			rest[hour] = strings.Join(kept, "")
		}
	}
	return rest, shutdown
}

// TextIsFrames reports whether every expected text is its frames joined, so that the same is expected where only final
// chunks carry the full text.
func (c *Case) TextIsFrames() (bool, error) {
	for _, content := range c.Files {
		for line := range strings.Lines(content) {
			var record struct {
				Text   string   `json:"text"`
				Frames []string `json:"frames"`
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				return false, err
			}
			if record.Text != strings.Join(record.Frames, "") {
				return false, nil
			}
		}
	}
	return true, nil
}

// Variant is a way to send a stream that must give the same files.
type Variant struct {
	Name      string
	BatchSize int // records a batch; 0 is all in one
	Options   replay.Options
}

// Variants are all ways to send the case's stream.
func (c *Case) Variants() ([]Variant, error) {
	texts := []replay.FullText{replay.EveryChunk}
	same, err := c.TextIsFrames()
	if err != nil {
		return nil, err
	}
	if same {
		texts = append(texts, replay.FinalChunk)
	}
	var variants []Variant
	for _, text := range texts {
		for _, batch := range []int{0, 7} {
			for _, form := range []replay.Form{replay.Single, replay.Array, replay.Packed} {
				name := fmt.Sprintf("%s/text=%s/batch=%d", form, text, batch)
				variants = append(variants, Variant{name, batch, replay.Options{Form: form, ChunksPerRecord: 5, FullText: text}})
			}
		}
	}
	return variants, nil
}

// Batches cuts a stream's records into batches.
func (v Variant) Batches(events []replay.Event) [][]replay.Record {
	records := replay.Records(events, v.Options)
	size := v.BatchSize
	if size == 0 {
		size = max(len(records), 1)
	}
	return slices.Collect(slices.Chunk(records, size))
}
