package assembly

import (
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otel-rawoutput/rawoutput/internal/attr"
	"github.com/otel-rawoutput/rawoutput/internal/signal"
)

// Source tells one sender from another: a digest of the attributes that identify it (docs/contract.md, section 1,
// Identity), so that a source with long attributes costs no more than others. The zero Source is that of resources with
// none of them.
type Source [16]byte

// SourceOf returns the source of a resource with these attributes.
func SourceOf(resource pcommon.Map) Source {
	identity := make([]byte, 0, 256) // enough for most
	for key, value := range attr.Identifying(resource) {
		for _, part := range [...]string{key, value.AsString()} { // each with its length, so that no two resources add up to the same
			identity = append(binary.LittleEndian.AppendUint64(identity, uint64(len(part))), part...)
		}
	}
	if len(identity) == 0 {
		return Source{}
	}
	digest := sha256.Sum256(identity)
	return Source(digest[:len(Source{})])
}

// From is where chunks come from: their source, and the resource and scope of the batch that they are in.
type From struct {
	Source Source
	Scope  signal.Scope

	origin *origin // what the table made of Scope, where it did already
}

// origin is the resource and scope that outputs began in, shared by those that began in the same.
type origin struct {
	scope signal.Scope // a copy of ours
	size  int64
	users int
}

// retain returns the origin of an output that begins, and counts it as used.
func (t *Table) retain(from *From) *origin {
	if from.origin == nil {
		from.origin = t.originOf(from)
	}
	o := from.origin
	if o.users == 0 {
		t.bytes += o.size
		t.origins[from.Source] = o
	}
	o.users++
	return o
}

func (t *Table) originOf(from *From) *origin {
	if o, ok := t.origins[from.Source]; ok && o.scope.Equal(from.Scope) {
		return o
	}
	scope := from.Scope.Clone()
	return &origin{scope: scope, size: scope.Size() + originOverhead}
}

// release undoes one retain.
func (t *Table) release(source Source, o *origin) {
	o.users--
	if o.users > 0 {
		return
	}
	t.bytes -= o.size
	if t.origins[source] == o {
		delete(t.origins, source)
	}
}
