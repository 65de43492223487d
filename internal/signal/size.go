package signal

import "github.com/otel-rawoutput/rawoutput/internal/heapsize"

// sizer adds up the memory of a batch.
type sizer struct {
	perEvent int64
	size     int64
}

func (s *sizer) Enter(scope Scope) { s.size += scope.Size() }
func (s *sizer) Visit(e Event)     { s.size += s.perEvent + heapsize.Map(e.Attributes) }
