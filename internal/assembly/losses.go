package assembly

import "github.com/hashicorp/golang-lru/v2/simplelru"

// losses are how many chunks emitters say to have dropped. Records may come in any order, so that the highest number of each
// source counts; a source that is not heard of for long is forgotten, and what it says then counts again.
type losses struct {
	highest *simplelru.LRU[Source, uint32]
}

// mostLosses is how many sources are remembered, those that were heard of last.
const mostLosses = 16384

func newLosses() losses {
	highest, _ := simplelru.NewLRU[Source, uint32](mostLosses, nil) // fails only where the size is not above 0
	return losses{highest}
}

// since returns how many chunks a source has dropped beside those that it spoke of before.
func (l *losses) since(source Source, dropped uint32) int64 {
	if dropped == 0 {
		return 0
	}
	before, _ := l.highest.Get(source)
	if dropped <= before {
		return 0
	}
	l.highest.Add(source, dropped)
	return int64(dropped - before)
}
