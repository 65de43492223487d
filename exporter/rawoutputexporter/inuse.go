package rawoutputexporter

import "sync"

// inUse has what several exporters share, by its key, until the last of them is done with it.
type inUse[K comparable, V any] struct {
	mu    sync.Mutex
	byKey map[K]*counted[V]
}

type counted[V any] struct {
	value V
	users int
}

// acquire returns what is there under a key, or made for it. Whoever got it must release the key.
func (u *inUse[K, V]) acquire(key K, create func() (V, error)) (V, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c, ok := u.byKey[key]
	if !ok {
		value, err := create()
		if err != nil {
			return value, err
		}
		c = &counted[V]{value: value}
		if u.byKey == nil {
			u.byKey = map[K]*counted[V]{}
		}
		u.byKey[key] = c
	}
	c.users++
	return c.value, nil
}

// release undoes one acquire. It reports whether that was the last.
func (u *inUse[K, V]) release(key K) (last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.byKey[key]
	c.users--
	if c.users > 0 {
		return false
	}
	delete(u.byKey, key)
	return true
}
