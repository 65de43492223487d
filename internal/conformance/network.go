package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// What a network does to records: some come twice, and all of them may come this many places late.
const (
	twicePercent = 30
	mostLate     = 25
)

// Network returns the records as a network may deliver them: in another order, and some of them twice.
func Network(records []replay.Record, seed uint64) []replay.Record {
	type delivery struct {
		record replay.Record
		place  int
	}
	random := rand.New(rand.NewPCG(seed, 0))
	var deliveries []delivery
	for i, r := range records {
		deliveries = append(deliveries, delivery{r, i + random.IntN(mostLate+1)})
		if random.IntN(100) < twicePercent {
			deliveries = append(deliveries, delivery{r, i + random.IntN(mostLate+1)})
		}
	}
	slices.SortStableFunc(deliveries, func(a, b delivery) int { return a.place - b.place })
	delivered := make([]replay.Record, len(deliveries))
	for i, d := range deliveries {
		delivered[i] = d.record
	}
	return delivered
}

// LoadAnyOrder reads the cases below a directory for which AnyOrder is true. There must be some.
func LoadAnyOrder(directory string) ([]Case, error) {
	cases, err := Load(directory)
	if err != nil {
		return nil, err
	}
	cases = slices.DeleteFunc(cases, func(c Case) bool { return !c.AnyOrder() })
	if len(cases) == 0 {
		return nil, fmt.Errorf("no case in %s may come in any order", directory)
	}
	return cases, nil
}

// AnyOrder reports whether the lines are the same in whatever order the records come, as long as they are numbered: no
// output is evicted, and no id used again.
func (c *Case) AnyOrder() bool {
	for _, content := range c.Files {
		if strings.Contains(content, `"end_reason":"evicted"`) {
			return false
		}
	}
	ended := map[output]bool{}
	for _, e := range c.Events {
		if e.Type == replay.TypeRequestEnd {
			ended[output{e.RequestID, everyOutput}] = true
			continue
		}
		if ended[outputOf(e)] || ended[output{e.RequestID, everyOutput}] {
			return false
		}
		ended[outputOf(e)] = e.IsFinal
	}
	return true
}

// output is what tells one output of a stream from another.
type output struct {
	request replay.ID
	index   int64
}

// everyOutput stands for all outputs of a request.
const everyOutput = -1

func outputOf(e replay.Event) output { return output{e.RequestID, e.OutputIndex} }

// Losable returns the places in the stream of chunks that would be missed: all but the last of their output, where what is left of
// the output makes a line.
func (c *Case) Losable() (places []int) {
	for i, e := range c.Events {
		if e.Type == replay.TypeChunk && c.isMissed(i) {
			places = append(places, i)
		}
	}
	return places
}

func (c *Case) isMissed(place int) bool {
	isLast, isWritten := true, false
	for i, e := range c.Events {
		if e.Type != replay.TypeChunk || outputOf(e) != outputOf(c.Events[place]) || i == place {
			continue
		}
		isLast = isLast && i < place
		isWritten = isWritten || e.IsFinal || e.TextDiff != "" || len(e.TokenIDsDiff) > 0
	}
	return !isLast && isWritten
}

// CheckLoss says what is wrong with the lines that came of the stream without one of its chunks: they must be those of the case,
// but that exactly the chunk's output says that something is missing. Lines of outputs that shutdown ended have its time, so
// that they are left out, but for that of this output.
func (c *Case) CheckLoss(lost replay.Event, got []string) error {
	want := Lines(c.Files)
	isVictim := func(line string) bool { return isOf(line, lost) }
	others := slices.DeleteFunc(WithoutShutdownLines(got), isVictim)
	if expected := slices.DeleteFunc(slices.Clone(want), isVictim); !slices.Equal(expected, others) {
		return fmt.Errorf("other lines are\n%s\nand should be\n%s", strings.Join(others, ""), strings.Join(expected, ""))
	}
	victims := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return !isVictim(line) })
	if len(victims) != 1 {
		return fmt.Errorf("there are %d lines of the output that lacks a chunk", len(victims))
	}
	says := []string{`"partial":true`, `"frames_consistent":false`}
	if slices.ContainsFunc(want, func(line string) bool { return isVictim(line) && strings.Contains(line, `"end_reason":null`) }) {
		says = append(says, `"end_reason":"chunks_missing"`)
	}
	for _, text := range says {
		if !strings.Contains(victims[0], text) {
			return fmt.Errorf("%s should have %s", victims[0], text)
		}
	}
	return nil
}

// isOf reports whether a line is that of an event's output.
func isOf(line string, e replay.Event) bool {
	var record struct {
		RequestID   string `json:"request_id"`
		OutputIndex int64  `json:"output_index"`
	}
	err := json.Unmarshal([]byte(line), &record)
	return err == nil && record.RequestID == strings.Trim(string(e.RequestID), `"`) && record.OutputIndex == e.OutputIndex
}

// WithoutShutdownLines returns the lines but for those of outputs that shutdown ended.
func WithoutShutdownLines(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, byShutdown) })
}

// Lines returns the lines of all hours, sorted.
func Lines(files map[string]string) []string {
	var lines []string
	for _, content := range files {
		lines = append(lines, slices.Collect(strings.Lines(content))...)
	}
	slices.Sort(lines)
	return lines
}
