// Package contract holds the names and the limits of the wire contract, docs/contract.md: what an inference server sends,
// what the processor makes of it and what the exporter writes. It has no code, so that every other package may import it.
package contract // import "github.com/otel-rawoutput/rawoutput/internal/contract"

import "math"

// The event names: of a log record its event name, of a span its name.
const (
	EventChunk      = "raw_output.chunk"
	EventRequestEnd = "raw_output.request_end"
	EventRecord     = "raw_output"
)

// AttributeEventName stands for the event name where a sender cannot set that.
const AttributeEventName = "event.name"

// Namespace is the prefix of every attribute below. It is reserved: an attribute in it that the contract does not list is
// not kept as an "other attribute" of an output, so that no sender can overwrite a key of the record.
const Namespace = "raw_output."

// Attributes of a chunk (section 1); the ids and the output index are also attributes of the record.
const (
	RequestID       = "raw_output.request_id"
	DisaggRequestID = "raw_output.disagg_request_id"
	OutputIndex     = "raw_output.output_index"
	TextDiff        = "raw_output.text_diff"
	FrameLengths    = "raw_output.frame_lengths"
	TokenIDsDiff    = "raw_output.token_ids_diff"
	Text            = "raw_output.text"
	IsFinal         = "raw_output.is_final"
	Aborted         = "raw_output.aborted"
	Streaming       = "raw_output.streaming"
	ChunkIndex      = "raw_output.chunk_index"
	FrameAges       = "raw_output.frame_ages"
	EmitterDropped  = "raw_output.emitter_dropped"
)

// Attributes of a request end (section 2). EndReason is also an attribute of the record.
const (
	EndReason   = "raw_output.end_reason"
	ChunkCounts = "raw_output.chunk_counts"
)

// Attributes that only the record has (section 3).
const (
	StartedAt        = "raw_output.started_at"
	Partial          = "raw_output.partial"
	Frames           = "raw_output.frames"
	FramesConsistent = "raw_output.frames_consistent"
	TokenIDs         = "raw_output.token_ids"
	NumOutputTokens  = "raw_output.num_output_tokens"
)

// Attributes of the record that say how its chunks arrived (section 3). They are no keys of the line, unless the exporter is
// told to include them.
const (
	Chunks          = "raw_output.chunks"
	MissingChunks   = "raw_output.missing_chunks"
	DuplicateChunks = "raw_output.duplicate_chunks"
	FrameTimes      = "raw_output.frame_times"
)

// End reasons that the Collector gives itself (section 3); any other is the server's.
const (
	ReasonEvicted       = "evicted"
	ReasonIdleTimeout   = "idle_timeout"
	ReasonShutdown      = "shutdown"
	ReasonChunksMissing = "chunks_missing"
)

// What the contract allows (section 1).
const (
	// MaxIDBytes bounds a request id and a disaggregated request id, in bytes.
	MaxIDBytes = 256
	// MaxIndex is the largest index or count.
	MaxIndex = math.MaxInt32
	// MaxTokenID is the largest token id.
	MaxTokenID = math.MaxUint32
)

// SourceAttributes are the resource attributes that tell one source from another (section 1, Identity).
var SourceAttributes = [...]string{"service.namespace", "service.name", InstanceID, "process.pid"}

// InstanceID names the resource attribute that, where it is present, makes FallbackSourceAttributes needless.
const InstanceID = "service.instance.id"

// FallbackSourceAttributes count only where the resource has no InstanceID: processors add them late, so that the first
// chunks of an output may lack them.
var FallbackSourceAttributes = [...]string{"host.name", "k8s.pod.uid"}
