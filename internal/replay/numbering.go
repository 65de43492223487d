package replay

// numbering is how many chunks the outputs of each request had.
type numbering map[ID]outputs

// outputs are those of a request, by output index.
type outputs map[int64]*numbered

type numbered struct {
	chunks  int
	isEnded bool // by its final chunk
}

// number gives a record its numbers.
func (n numbering) number(r *Record) {
	last := r.last()
	if last.Type == TypeRequestEnd {
		r.counts = n[last.RequestID].counts()
		delete(n, last.RequestID)
		return
	}
	if n[last.RequestID] == nil {
		n[last.RequestID] = outputs{}
	}
	output := n[last.RequestID][last.OutputIndex]
	if output == nil || output.isEnded { // its id is used again
		output = &numbered{}
		n[last.RequestID][last.OutputIndex] = output
	}
	r.index = output.chunks
	output.chunks += r.Len()
	output.isEnded = last.IsFinal
}

// mostCounted is how many outputs of a request are counted: a recorded stream may hold any index.
const mostCounted = 1 << 16

func (o outputs) counts() (counts []int) {
	for index, output := range o {
		if index < 0 || index >= mostCounted {
			continue
		}
		for int64(len(counts)) <= index {
			counts = append(counts, 0)
		}
		counts[index] = output.chunks
	}
	return counts
}
