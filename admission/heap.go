package admission

import "time"

// heap is a binary heap whose elements know where they are, so that any of
// them can be removed or moved in O(log n). at gives the place in which an
// element keeps its index plus one; zero means that it is in no heap.
type heap[T comparable] struct {
	less  func(a, b T) bool
	at    func(T) *int
	items []T
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) top() (T, bool) {
	if len(h.items) == 0 {
		var zero T
		return zero, false
	}
	return h.items[0], true
}

// due takes the first element out if its time has come.
func (h *heap[T]) due(now time.Time, of func(T) time.Time) (T, bool) {
	x, ok := h.top()
	if !ok || of(x).After(now) {
		var zero T
		return zero, false
	}
	h.remove(x)
	return x, true
}

// fix puts an element in its place, adding it if it is not there.
func (h *heap[T]) fix(x T) {
	p := h.at(x)
	if *p == 0 {
		h.items = append(h.items, x)
		*p = len(h.items)
	}
	i := *p - 1
	if !h.up(i) {
		h.down(i)
	}
}

// remove takes an element out; one that is not there is left alone.
func (h *heap[T]) remove(x T) {
	p := h.at(x)
	if *p == 0 {
		return
	}
	i, last := *p-1, len(h.items)-1
	h.swap(i, last)
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	*p = 0
	if i < last && !h.up(i) {
		h.down(i)
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.at(h.items[i]), *h.at(h.items[j]) = i+1, j+1
}

func (h *heap[T]) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			break
		}
		h.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (h *heap[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if r := child + 1; r < len(h.items) && h.less(h.items[r], h.items[child]) {
			child = r
		}
		if !h.less(h.items[child], h.items[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}
