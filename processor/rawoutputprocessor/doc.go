//go:generate mdatagen metadata.yaml

// Package rawoutputprocessor assembles the streamed chunks of language model outputs into one raw-output record per
// output, in the same signal, logs or traces. Every other record passes through at once and untouched.
//
// A batch goes through it in this order, so that an error to the sender always means that nothing was absorbed:
//
//  1. What is neither a chunk nor a request end is passed on (processor.go).
//  2. The chunks are decoded, outside the lock, and added to the outputs in flight, inside it (absorb.go).
//  3. The records of the outputs that ended are delivered, outside the lock; what the next component refuses is kept
//     within bounds and retried in order (parcel.go, outbox.go).
package rawoutputprocessor // import "github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor"
