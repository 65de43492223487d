package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pollInterval is how often the files are looked at while outputs are missing.
const pollInterval = 50 * time.Millisecond

// Verify reads the hourly files below a directory until each output of the run is there, or the context is done, and then a
// last time. An error says which outputs are missing, there twice, or not what was sent.
func Verify(ctx context.Context, shape *Shape, directory string) error {
	v := verifier{shape: shape, read: map[string]int64{}, seen: make([]bool, shape.Outputs)}
	for {
		if err := v.readNew(directory); err != nil {
			return err
		}
		if v.found == shape.Outputs {
			return errors.Join(v.problems...)
		}
		select {
		case <-ctx.Done():
			return errors.Join(append(v.problems, v.missing())...)
		case <-time.After(pollInterval):
		}
	}
}

// mostProblems is how many are told one by one.
const mostProblems = 10

type verifier struct {
	shape    *Shape
	read     map[string]int64 // how far each file was read
	seen     []bool           // by the output's number
	found    int
	problems []error
}

func (v *verifier) readNew(directory string) error {
	paths, err := filepath.Glob(filepath.Join(directory, "*", "*.jsonl"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := v.readFile(path); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads what whole lines a file has got since it was read.
func (v *verifier) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(v.read[path], io.SeekStart); err != nil {
		return err
	}
	added, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	added = added[:bytes.LastIndexByte(added, '\n')+1]
	v.read[path] += int64(len(added))
	for line := range bytes.Lines(added) {
		if err := v.check(line); err != nil && len(v.problems) < mostProblems {
			v.problems = append(v.problems, fmt.Errorf("%s: %w", path, err))
		}
	}
	return nil
}

// line is what is checked of one.
type line struct {
	RequestID   string   `json:"request_id"`
	OutputIndex int      `json:"output_index"`
	Aborted     bool     `json:"aborted"`
	Partial     bool     `json:"partial"`
	EndReason   string   `json:"end_reason"`
	Text        string   `json:"text"`
	Frames      []string `json:"frames"`
	Consistent  bool     `json:"frames_consistent"`
	TokenIDs    []uint32 `json:"token_ids"`
}

// check checks a line, if it is of this run.
func (v *verifier) check(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("a line is not JSON: %w", err)
	}
	number, isOurs := strings.CutPrefix(l.RequestID, v.shape.Run+"-")
	if !isOurs {
		return nil
	}
	request, err := strconv.Atoi(number)
	output := request*v.shape.N + l.OutputIndex
	if err != nil || l.OutputIndex < 0 || l.OutputIndex >= v.shape.N || output < 0 || output >= len(v.seen) {
		return fmt.Errorf("output %d of request %s was not sent", l.OutputIndex, l.RequestID)
	}
	if v.seen[output] {
		return fmt.Errorf("output %d of request %s is there twice", l.OutputIndex, l.RequestID)
	}
	v.seen[output] = true
	v.found++
	if what := v.difference(place{request, l.OutputIndex}, &l); what != "" {
		return fmt.Errorf("output %d of request %s: %s", l.OutputIndex, l.RequestID, what)
	}
	return nil
}

// difference says what of a line is not what was sent.
func (v *verifier) difference(at place, l *line) string {
	frames := make([]string, v.shape.Chunks)
	ids := make([]uint32, v.shape.Chunks)
	for chunk := range frames {
		frames[chunk], ids[chunk] = v.shape.frame(at, chunk), v.shape.tokenID(at, chunk)
	}
	switch {
	case l.Partial:
		return fmt.Sprintf("it is partial, with the end reason %q and %d of %d chunks", l.EndReason, len(l.Frames), v.shape.Chunks)
	case l.Text != strings.Join(frames, ""):
		return "its text is another"
	case !slices.Equal(l.Frames, frames) || !l.Consistent:
		return "its frames are others"
	case !slices.Equal(l.TokenIDs, ids):
		return "its token ids are others"
	case l.Aborted != v.shape.isAborted(at.request):
		return fmt.Sprintf("aborted is %v", l.Aborted)
	}
	return ""
}

func (v *verifier) missing() error {
	output := slices.Index(v.seen, false)
	at := v.shape.place(output)
	return fmt.Errorf("%d of %d outputs are not there, the first is output %d of request %s",
		v.shape.Outputs-v.found, v.shape.Outputs, at.index, v.shape.requestID(at.request))
}
