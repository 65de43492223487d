package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// load is what a case sends.
type load struct {
	name            string
	signal          replay.Signal
	form            replay.Form
	chunksPerRecord int
	inFlight        int
	chunksPerOutput int
	numbered        bool
	senders         int
}

// plain is the load that the others vary: what a server sends that calls its hook for each chunk.
var plain = load{signal: replay.AsLogs, form: replay.Single, chunksPerRecord: 1, inFlight: 64, chunksPerOutput: 100, senders: 4}

var cases = slices.Concat([]load{
	plain.named("1 chunk a record"),
	plain.form20(replay.Array).named("20 chunks a record, arrays"),
	plain.form20(replay.Packed).named("20 chunks a record, packed"),
	plain.with(func(l *load) { l.form, l.chunksPerRecord, l.chunksPerOutput = replay.Array, 200, 2000 }).named("200 chunks a record, arrays"),
	plain.with(func(l *load) { l.form, l.chunksPerRecord, l.chunksPerOutput = replay.Packed, 200, 2000 }).named("200 chunks a record, packed"),
	plain.with(func(l *load) { l.numbered = true }).named("1 chunk a record, numbered"),
	plain.form20(replay.Packed).with(func(l *load) { l.numbered = true }).named("20 chunks a record, packed, numbered"),
	plain.with(func(l *load) { l.signal = replay.AsTraces }).named("1 chunk a record, spans"),
	plain.form20(replay.Packed).with(func(l *load) { l.signal = replay.AsTraces }).named("20 chunks a record, packed, spans"),
	plain.with(func(l *load) { l.inFlight = 4096 }).named("1 chunk a record, 4,096 in flight"),
	plain.with(func(l *load) { l.inFlight = 50_000 }).named("1 chunk a record, 50,000 in flight"),
	plain.form20(replay.Packed).with(func(l *load) { l.chunksPerOutput = 2000 }).named("20 chunks a record, packed, 2,000 an output"),
	plain.form20(replay.Packed).with(func(l *load) { l.chunksPerOutput = 32_000 }).named("20 chunks a record, packed, 32,000 an output"),
}, bySenders("1 chunk a record", plain), bySenders("20 chunks a record, packed", plain.form20(replay.Packed)))

// bySenders is the load from ever more senders, with as many outputs in flight.
func bySenders(name string, l load) (loads []load) {
	for _, n := range []int{1, 2, 4, 8} {
		loads = append(loads, l.with(func(l *load) { l.senders = n }).named(fmt.Sprintf("%s, senders: %d", name, n)))
	}
	return loads
}

func (l load) named(name string) load { l.name = name; return l }

func (l load) with(change func(*load)) load { change(&l); return l }

func (l load) form20(form replay.Form) load {
	return l.with(func(l *load) { l.form, l.chunksPerRecord = form, 20 })
}

// outputs is how many outputs make up so many chunks, at least: whole rounds of those in flight.
func (l load) outputs(chunks int) int {
	round := l.inFlight * l.chunksPerOutput
	return (chunks + round - 1) / round * l.inFlight
}

// subject is a Collector with a pipeline.
type subject struct {
	name      string
	peers     bool // it is in the Collector with the peers
	spansOnly bool
	// The parts of a configuration beside the receiver. DIRECTORY stands for one.
	processors, exporters, pipeline string
}

// ours is what is measured.
var ours = recording("raw_output", "max_pending: 100000")

// recording is our Collector with these options of the processor.
func recording(name, options string) subject {
	return subject{
		name: name, processors: "{raw_output: {" + options + "}}", exporters: "{raw_output: {directory: DIRECTORY}}",
		pipeline: "processors: [raw_output], exporters: [raw_output]",
	}
}

// receiver is what the others are compared with.
var receiver = subject{name: "receiver alone", exporters: "{nop: }", pipeline: "exporters: [nop]"}

var subjects = []subject{
	receiver,
	ours,
	recording("raw_output, packed records", "max_pending: 100000, packed_records: true"),
	{name: "fileexporter", peers: true, exporters: "{file: {path: DIRECTORY/chunks.jsonl}}", pipeline: "exporters: [file]"},
	{
		name: "groupbytrace", peers: true, spansOnly: true, processors: "{groupbytrace: {wait_duration: 1s, num_traces: 100000}}",
		exporters: "{nop: }", pipeline: "processors: [groupbytrace], exporters: [nop]",
	},
}

// config is the configuration of the subject for a signal, that has it write a CPU profile where one is wanted.
func (s subject) config(signal, socket, directory, profile string) string {
	extensions, names := "{}", "[]"
	if profile != "" {
		extensions = fmt.Sprintf("{pprof: {endpoint: 'localhost:0', save_to_file: %q}}", profile)
		names = "[pprof]"
	}
	return fmt.Sprintf(`yaml:
extensions: %s
receivers: {otlp: {protocols: {grpc: {endpoint: %q, transport: unix, max_recv_msg_size_mib: 64}}}}
processors: %s
exporters: %s
service: {extensions: %s, pipelines: {%s: {receivers: [otlp], %s}}}
`, extensions, socket, cmp.Or(s.processors, "{}"), strings.ReplaceAll(s.exporters, "DIRECTORY", directory), names, signal, s.pipeline)
}
