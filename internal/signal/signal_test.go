package signal

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/multierr"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// A signal's tests are the same for both; tools are what they need of each.
type tools[T any] struct {
	Signal[T]
	build    func(resources ...resourceOf) T
	readOnly func(T)
	marshal  func(T) []byte
	partial  func(err error, left T) error
}

// resourceOf and scopeOf describe a batch: the names of the events in it. A name in parentheses goes into an attribute.
type (
	resourceOf struct {
		name   string
		scopes []scopeOf
	}
	scopeOf struct {
		name   string
		events []string
	}
)

func resource(name string, scopes ...scopeOf) resourceOf { return resourceOf{name, scopes} }
func scope(name string, events ...string) scopeOf        { return scopeOf{name, events} }

var logs = tools[plog.Logs]{
	Signal: Logs{},
	build: func(resources ...resourceOf) plog.Logs {
		batch := plog.NewLogs()
		for _, r := range resources {
			resource := batch.ResourceLogs().AppendEmpty()
			resource.SetSchemaUrl(r.name + " schema")
			resource.Resource().Attributes().PutStr("service.name", r.name)
			for _, s := range r.scopes {
				scope := resource.ScopeLogs().AppendEmpty()
				scope.SetSchemaUrl(s.name + " schema")
				scope.Scope().SetName(s.name)
				for _, name := range s.events {
					e := scope.LogRecords().AppendEmpty()
					setName(name, e.SetEventName, e.Attributes())
				}
			}
		}
		return batch
	},
	readOnly: func(batch plog.Logs) { batch.MarkReadOnly() },
	marshal: func(batch plog.Logs) []byte {
		otlp, _ := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
		return otlp
	},
	partial: func(err error, left plog.Logs) error { return consumererror.NewLogs(err, left) },
}

var traces = tools[ptrace.Traces]{
	Signal: Traces{},
	build: func(resources ...resourceOf) ptrace.Traces {
		batch := ptrace.NewTraces()
		for _, r := range resources {
			resource := batch.ResourceSpans().AppendEmpty()
			resource.SetSchemaUrl(r.name + " schema")
			resource.Resource().Attributes().PutStr("service.name", r.name)
			for _, s := range r.scopes {
				scope := resource.ScopeSpans().AppendEmpty()
				scope.SetSchemaUrl(s.name + " schema")
				scope.Scope().SetName(s.name)
				for _, name := range s.events {
					e := scope.Spans().AppendEmpty()
					setName(name, e.SetName, e.Attributes())
				}
			}
		}
		return batch
	},
	readOnly: func(batch ptrace.Traces) { batch.MarkReadOnly() },
	marshal: func(batch ptrace.Traces) []byte {
		otlp, _ := (&ptrace.ProtoMarshaler{}).MarshalTraces(batch)
		return otlp
	},
	partial: func(err error, left ptrace.Traces) error { return consumererror.NewTraces(err, left) },
}

func setName(name string, set func(string), attributes pcommon.Map) {
	if n := len(name); n > 1 && name[0] == '(' {
		attributes.PutStr(contract.AttributeEventName, name[1:n-1])
		return
	}
	set(name)
}

// listener writes down what it is shown.
type listener struct{ heard []string }

func (l *listener) Enter(s Scope) {
	name, _ := s.Resource.Attributes().Get("service.name")
	l.heard = append(l.heard, fmt.Sprintf("%s(%s)/%s(%s)", name.Str(), s.ResourceSchema, s.Scope.Name(), s.ScopeSchema))
}

func (l *listener) Visit(e Event) { l.heard = append(l.heard, e.Name) }

func walk[T any](s tools[T], batch T) []string {
	var l listener
	s.Walk(batch, &l)
	return l.heard
}

func names[T any](s tools[T], batch T) (names []string) {
	s.Names(batch, func(name string) { names = append(names, name) })
	return names
}

// forBoth runs a test for logs and for traces.
func forBoth(t *testing.T, ofLogs func(*testing.T, tools[plog.Logs]), ofTraces func(*testing.T, tools[ptrace.Traces])) {
	t.Helper()
	t.Run("logs", func(t *testing.T) { ofLogs(t, logs) })
	t.Run("traces", func(t *testing.T) { ofTraces(t, traces) })
}

// some is a batch with a bit of everything, empty places included.
var some = []resourceOf{
	resource("empty"),
	resource("r", scope("s", "a", "", "(b)"), scope("empty"), scope("t", "c")),
	resource("q", scope("s", "a")),
}

func TestReading(t *testing.T) { forBoth(t, testReading, testReading) }

// Batches that others read at the same time are read-only: what only reads must not fail on them.
func testReading[T any](t *testing.T, s tools[T]) {
	batch := s.build(some...)
	s.readOnly(batch)
	assert.Equal(t, 5, s.Count(batch))
	assert.Equal(t, []string{"a", "", "b", "c", "a"}, names(s, batch))
	assert.Equal(t, []string{
		"r(r schema)/s(s schema)", "a", "", "b",
		"r(r schema)/t(t schema)", "c", // a scope without events is not shown
		"q(q schema)/s(s schema)", "a",
	}, walk(s, batch))
	assert.Positive(t, s.Size(batch))

	nothing := s.build()
	assert.Zero(t, s.Count(nothing))
	assert.Empty(t, names(s, nothing))
	assert.Empty(t, walk(s, nothing))
	assert.Zero(t, s.Size(nothing))
}

func TestWithout(t *testing.T) { forBoth(t, testWithout, testWithout) }

func testWithout[T any](t *testing.T, s tools[T]) {
	for _, test := range []struct {
		name    string
		dropped []string
		want    []string
	}{
		{
			"some", []string{"a"},
			[]string{"r(r schema)/s(s schema)", "", "b", "r(r schema)/t(t schema)", "c"},
		},
		{
			"by the attribute that stands for the name", []string{"b", "c"},
			[]string{"r(r schema)/s(s schema)", "a", "", "q(q schema)/s(s schema)", "a"},
		},
		{"all", []string{"a", "", "b", "c"}, nil},
		{
			"none", nil,
			[]string{"r(r schema)/s(s schema)", "a", "", "b", "r(r schema)/t(t schema)", "c", "q(q schema)/s(s schema)", "a"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			batch := s.build(some...)
			before := s.marshal(batch)
			s.readOnly(batch)
			rest := s.Without(batch, func(name string) bool { return slices.Contains(test.dropped, name) })
			assert.Equal(t, test.want, walk(s, rest))
			assert.Equal(t, before, s.marshal(batch), "the batch is as it was")
			if test.want == nil {
				assert.Empty(t, s.marshal(rest), "no scope or resource is left without events")
			}
		})
	}
}

func TestCopies(t *testing.T) { forBoth(t, testCopies, testCopies) }

// A copy is the next component's to change.
func testCopies[T any](t *testing.T, s tools[T]) {
	batch := s.build(resource("r", scope("s", "(a)", "b")))
	before := s.marshal(batch)
	s.readOnly(batch)
	for name, c := range map[string]T{"Copy": s.Copy(batch), "Without": s.Without(batch, func(string) bool { return false })} {
		assert.Equal(t, before, s.marshal(c), name)
		s.Walk(c, changer{})
		assert.NotEqual(t, before, s.marshal(c), name)
		assert.Equal(t, before, s.marshal(batch), name)
	}
}

// changer changes all that it is shown.
type changer struct{}

func (changer) Enter(s Scope) {
	s.Resource.Attributes().PutStr("changed", "r")
	s.Scope.SetName("changed")
}
func (changer) Visit(e Event) { e.Attributes.PutStr("changed", "e") }

func TestNameOf(t *testing.T) {
	for _, test := range []struct {
		name      string
		eventName string
		attribute any // nil is none
		want      string
	}{
		{"the event name", "a", nil, "a"},
		{"the attribute in its place", "", "b", "b"},
		{"the event name goes before", "a", "b", "a"},
		{"neither", "", nil, ""},
		{"an attribute of another type", "", int64(1), ""},
		{"an empty attribute", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			attributes := pcommon.NewMap()
			if test.attribute != nil {
				require.NoError(t, attributes.PutEmpty(contract.AttributeEventName).FromRaw(test.attribute))
			}
			assert.Equal(t, test.want, nameOf(test.eventName, attributes))
		})
	}
}

func TestRefused(t *testing.T) { forBoth(t, testRefused, testRefused) }

func testRefused[T any](t *testing.T, s tools[T]) {
	left := s.build(resource("r", scope("s", "b")))
	no := errors.New("no")
	partial := s.partial(no, left)
	for _, test := range []struct {
		name  string
		err   error
		tells bool
	}{
		{"an error that does not tell", no, false},
		{"a permanent one", consumererror.NewPermanent(no), false},
		{"one that tells what is left", partial, true},
		{"one that tells, within another", fmt.Errorf("export: %w", partial), true},
		{"one that tells for one of two components", errors.Join(partial, no), false},
		{"the same from the Collector's fan-out", multierr.Append(no, partial), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			refused, ok := s.Refused(test.err)
			require.Equal(t, test.tells, ok)
			if ok {
				assert.Equal(t, left, refused)
				assert.False(t, errors.As(WithoutPart(test.err), new(consumererror.Logs)) || errors.As(WithoutPart(test.err), new(consumererror.Traces)))
				assert.ErrorIs(t, WithoutPart(test.err), no)
			} else {
				assert.Equal(t, test.err, WithoutPart(test.err))
			}
		})
	}
}

// What a batch of the other signal left says nothing.
func TestRefusedOfTheOtherSignal(t *testing.T) {
	_, ok := Logs{}.Refused(consumererror.NewTraces(errors.New("no"), ptrace.NewTraces()))
	assert.False(t, ok)
}

func TestIsPermanent(t *testing.T) {
	no, permanent := errors.New("no"), consumererror.NewPermanent(errors.New("never"))
	for _, test := range []struct {
		err  error
		want bool
	}{
		{no, false},
		{permanent, true},
		{fmt.Errorf("export: %w", permanent), true},
		{errors.Join(permanent, permanent), true},
		{consumererror.NewPermanent(errors.Join(no, no)), true}, // one component says so, whatever its reasons
		{errors.Join(permanent, no), false},
		{multierr.Append(no, permanent), false},
		{fmt.Errorf("export: %w", multierr.Append(permanent, permanent)), true},
	} {
		assert.Equal(t, test.want, IsPermanent(test.err), "%v", test.err)
	}
}

func TestSizeGrows(t *testing.T) { forBoth(t, testSizeGrows, testSizeGrows) }

func testSizeGrows[T any](t *testing.T, s tools[T]) {
	one := s.Size(s.build(resource("r", scope("s", "a"))))
	two := s.Size(s.build(resource("r", scope("s", "a", "a"))))
	twoScopes := s.Size(s.build(resource("r", scope("s", "a")), resource("r", scope("s", "a"))))
	attribute := s.Size(s.build(resource("r", scope("s", "(a name in an attribute)"))))
	assert.Greater(t, two, one, "an event takes something")
	assert.Greater(t, twoScopes, two, "so does a resource")
	assert.Equal(t, 2*one, twoScopes)
	assert.Greater(t, attribute, one+int64(len("a name in an attribute")), "and an attribute")
}

func TestBatch(t *testing.T) { forBoth(t, testBatch, testBatch) }

// Records that follow each other from the same scope share it; the order stays.
func testBatch[T any](t *testing.T, s tools[T]) {
	scopes := scopesOf(s, s.build(resource("r", scope("s", "x")), resource("q", scope("t", "x"))))
	equal := scopes[0].Clone()
	b := s.NewBatch()
	for _, scope := range []*Scope{&scopes[0], &scopes[0], &scopes[1], &scopes[0], &equal} {
		b.Append(scope, Trace{}, 1, 2)
	}
	const first, second = "r(r schema)/s(s schema)", "q(q schema)/t(t schema)"
	assert.Equal(t, []string{
		first, contract.EventRecord, contract.EventRecord, second, contract.EventRecord, first, contract.EventRecord,
		first, contract.EventRecord, // only identity tells that a scope is the same
	}, walk(s, b.Batch()))
	assert.Zero(t, s.Count(s.NewBatch().Batch()))
}

func scopesOf[T any](s tools[T], batch T) []Scope {
	var c scopeCollector
	s.Walk(batch, &c)
	return c
}

type scopeCollector []Scope

func (c *scopeCollector) Enter(s Scope) { *c = append(*c, s.Clone()) }
func (*scopeCollector) Visit(Event)     {}

func TestScopeClone(t *testing.T) {
	original := scopesOf(logs, logs.build(resource("r", scope("s", "x"))))[0]
	clone := original.Clone()
	assert.True(t, clone.Equal(original))
	clone.Resource.Attributes().PutStr("new", "x")
	assert.False(t, clone.Equal(original), "a clone is its own")
	assert.Equal(t, 1, original.Resource.Attributes().Len())
}

func TestScopeEqual(t *testing.T) {
	base := func() Scope {
		s := Scope{pcommon.NewResource(), "rs", pcommon.NewInstrumentationScope(), "ss"}
		s.Resource.Attributes().PutStr("a", "1")
		s.Resource.Attributes().PutStr("b", "2")
		s.Scope.SetName("n")
		s.Scope.SetVersion("v")
		s.Scope.Attributes().PutStr("c", "3")
		return s
	}
	assert.True(t, base().Equal(base()))
	for name, change := range map[string]func(*Scope){
		"resource schema":     func(s *Scope) { s.ResourceSchema = "x" },
		"scope schema":        func(s *Scope) { s.ScopeSchema = "x" },
		"name":                func(s *Scope) { s.Scope.SetName("x") },
		"version":             func(s *Scope) { s.Scope.SetVersion("x") },
		"resource attribute":  func(s *Scope) { s.Resource.Attributes().PutStr("a", "x") },
		"its type":            func(s *Scope) { s.Resource.Attributes().PutInt("a", 1) },
		"one more":            func(s *Scope) { s.Resource.Attributes().PutStr("x", "x") },
		"scope attribute":     func(s *Scope) { s.Scope.Attributes().PutStr("c", "x") },
		"no scope attributes": func(s *Scope) { s.Scope.Attributes().Clear() },
	} {
		t.Run(name, func(t *testing.T) {
			other := base()
			change(&other)
			assert.False(t, base().Equal(other))
			assert.False(t, other.Equal(base()))
		})
	}
	reordered := base()
	reordered.Resource.Attributes().Remove("a")
	reordered.Resource.Attributes().PutStr("a", "1")
	assert.True(t, base().Equal(reordered), "the order of attributes says nothing")
}

func TestScopeSize(t *testing.T) {
	empty := Scope{Resource: pcommon.NewResource(), Scope: pcommon.NewInstrumentationScope()}
	assert.Zero(t, empty.Size())
	named := empty.Clone()
	named.ResourceSchema, named.ScopeSchema = "12345", "1234"
	named.Scope.SetName("123")
	named.Scope.SetVersion("12")
	assert.Equal(t, int64(5+4+3+2), named.Size())
	named.Resource.Attributes().PutStr("k", "v")
	withAttribute := named.Size()
	assert.Greater(t, withAttribute, int64(5+4+3+2))
	named.Scope.Attributes().PutStr("k", "v")
	assert.Greater(t, named.Size(), withAttribute)
}

const latest = math.MaxUint64 // times are unsigned

// onlyEvent returns the only event of a batch.
func onlyEvent[T any](t *testing.T, s tools[T], batch T) Event {
	t.Helper()
	require.Equal(t, 1, s.Count(batch))
	var c eventCollector
	s.Walk(batch, &c)
	return c[0]
}

type eventCollector []Event

func (*eventCollector) Enter(Scope)     {}
func (c *eventCollector) Visit(e Event) { *c = append(*c, e) }
