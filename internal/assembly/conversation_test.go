package assembly

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/chunk"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/record"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// A conversation is what a table hears, step by step, and what it says: the records of the outputs that ended. The n-th
// step comes in second n, by the sender's clock and the Collector's.
type conversation struct {
	table  *Table
	froms  map[string]*From
	second uint64
}

type step interface{ do(*conversation) }

const second = uint64(time.Second)

// unlimited are limits that no conversation comes near.
var unlimited = Limits{Outputs: 1000, Bytes: 1 << 40, OutputBytes: 1 << 40}

func begin(limits Limits) *conversation {
	return &conversation{table: NewTable(limits), froms: map[string]*From{}}
}

// say takes the steps, and returns the records of what ended with them, and how many others ended empty.
func (c *conversation) say(steps ...step) (said []string, empty int) {
	for _, s := range steps {
		c.second++
		s.do(c)
	}
	ended, empty := c.table.TakeEnded()
	for i := range ended {
		said = append(said, show(&ended[i]))
	}
	return said, empty
}

func (c *conversation) now() time.Time { return time.Unix(int64(c.second), 0) }

// from returns where the chunks of a source come from, always the same for the same.
func (c *conversation) from(source string) *From {
	if c.froms[source] == nil {
		resource := pcommon.NewResource()
		resource.Attributes().PutStr(contract.InstanceID, source)
		c.froms[source] = &From{
			Source: SourceOf(resource.Attributes()),
			Scope:  signal.Scope{Resource: resource, Scope: pcommon.NewInstrumentationScope()},
		}
	}
	return c.froms[source]
}

// saidChunk is the step of a chunk record.
type saidChunk struct {
	chunk.Chunk
	source      string
	first, last uint64 // in seconds; 0 is the step's
}

// chunkOf begins a step: a record of the frames, one for each chunk in it, none for one without text.
func chunkOf(request string, frames ...string) *saidChunk {
	if len(frames) == 0 {
		frames = []string{""}
	}
	return &saidChunk{Chunk: chunk.Chunk{RequestID: request, Frames: frames}}
}

func (s *saidChunk) index(index uint32) *saidChunk        { s.OutputIndex = index; return s }
func (s *saidChunk) final() *saidChunk                    { s.IsFinal = true; return s }
func (s *saidChunk) text(text string) *saidChunk          { s.Text, s.HasText = text, true; return s }
func (s *saidChunk) tokens(ids ...uint32) *saidChunk      { s.TokenIDs = ids; return s }
func (s *saidChunk) aborted(f chunk.Flag) *saidChunk      { s.Aborted = f; return s }
func (s *saidChunk) streaming(f chunk.Flag) *saidChunk    { s.Streaming = f; return s }
func (s *saidChunk) by(source string) *saidChunk          { s.source = source; return s }
func (s *saidChunk) during(first, last uint64) *saidChunk { s.first, s.last = first, last; return s }
func (s *saidChunk) at(second uint64) *saidChunk          { return s.during(second, second) }

// disagg sets the disaggregated request id; empty is null.
func (s *saidChunk) disagg(id string) *saidChunk {
	s.DisaggRequestID, s.HasDisaggRequestID = id, true
	return s
}

// with adds attributes of the record, as the decoder counts them.
func (s *saidChunk) with(raw map[string]any) *saidChunk {
	s.Attributes, s.Others = pcommon.NewMap(), 0
	if err := s.Attributes.FromRaw(raw); err != nil {
		panic(err)
	}
	for key := range raw {
		if chunk.IsOther(key) {
			s.Others++
		}
	}
	return s
}

func (s *saidChunk) do(c *conversation) {
	it := s.Chunk
	it.StartedAt, it.Time = s.first*second, s.last*second
	if s.last == 0 {
		it.StartedAt, it.Time = c.second*second, c.second*second
	}
	c.table.Add(c.from(s.source), signal.Trace{}, &it, c.now())
}

// saidEnd is the step of a request end.
type saidEnd struct {
	request, reason, source string
	second                  uint64 // 0 is the step's
}

func endOf(request, reason string) *saidEnd { return &saidEnd{request: request, reason: reason} }

func (s *saidEnd) by(source string) *saidEnd { s.source = source; return s }
func (s *saidEnd) at(second uint64) *saidEnd { s.second = second; return s }

func (s *saidEnd) do(c *conversation) {
	at := s.second
	if at == 0 {
		at = c.second
	}
	c.table.EndRequest(c.from(s.source).Source, &chunk.End{RequestID: s.request, Reason: s.reason, Time: at * second})
}

// idleFor is the step of a timer: it ends what has been idle for so many seconds.
type idleFor uint64

func (idle idleFor) do(c *conversation) {
	c.table.Expire(c.now().Add(-time.Duration(idle)*time.Second), c.second*second)
}

// flush is the step of a shutdown, that many outputs.
type flush int

func (most flush) do(c *conversation) { c.table.Flush(int(most), c.second*second) }

// hold is the step of a caller that holds so many bytes of records.
type hold int64

func (bytes hold) do(c *conversation) { c.table.Hold(int64(bytes)) }

// makeRoom is the step of a caller that holds more and waits for no chunk.
type makeRoom struct{}

func (makeRoom) do(c *conversation) { c.table.MakeRoom(c.second * second) }

func show(e *Ended) string {
	others := pcommon.NewMap()
	e.PutOthers(others)
	return showRecord(e.Record(), others.AsRaw())
}

// showRecord writes a record for people: what is as usual is left out.
func showRecord(r record.Record, others map[string]any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d %d-%d %s [", r.RequestID, r.OutputIndex, r.StartedAt/second, r.FinishedAt/second, short(r.Text))
	for i, frame := range r.Frames {
		b.WriteString(strings.Repeat(" ", min(i, 1)) + short(frame))
	}
	b.WriteString("]")
	add := func(condition bool, format string, args ...any) {
		if condition {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	add(len(r.TokenIDs) > 0, "tokens%v", r.TokenIDs)
	add(r.Streaming, "streaming")
	add(r.Aborted, "aborted")
	add(r.DisaggRequestID != "", "disagg=%s", r.DisaggRequestID)
	add(r.Partial, "partial")
	add(r.HasEndReason, "reason=%q", r.EndReason)
	add(!r.FramesConsistent, "inconsistent")
	add(len(others) > 0, "%v", others)
	return b.String()
}

// short quotes a text, and of a long one tells the length.
func short(text string) string {
	if len(text) > 20 {
		return fmt.Sprintf("%.1q*%d", text, len(text))
	}
	return fmt.Sprintf("%q", text)
}

// conversationTest expects that steps end with these records, in this order.
type conversationTest struct {
	name   string
	limits Limits // zero is unlimited
	steps  []step
	want   []string
	empty  int // outputs that ended with nothing to write
	left   int // outputs still in flight
}

func runConversations(t *testing.T, tests []conversationTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.limits == (Limits{}) {
				test.limits = unlimited
			}
			c := begin(test.limits)
			said, empty := c.say(test.steps...)
			assert.Equal(t, test.want, said)
			assert.Equal(t, test.empty, empty, "empty ones")
			assert.Equal(t, test.left, c.table.Len(), "left in flight")
			checkInvariants(t, c.table)
		})
	}
}

// checkInvariants checks what is true of a table after each step.
func checkInvariants(t *testing.T, table *Table) {
	t.Helper()
	require.LessOrEqual(t, table.Len(), table.limits.Outputs)
	require.LessOrEqual(t, table.Bytes(), max(table.limits.Bytes-table.held, 0))
	require.GreaterOrEqual(t, table.Bytes(), int64(0))
	if table.Len() == 0 {
		require.Zero(t, table.Bytes(), "nothing takes nothing")
		require.Empty(t, table.requests)
		require.Empty(t, table.origins)
	} else {
		require.Positive(t, table.Bytes())
	}
	require.Equal(t, table.Len(), table.recent.Len())
}
