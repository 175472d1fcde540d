package fair

// item knows where in its heap it is.
type item[T any] interface {
	before(T) bool
	index() *int // -1 in none
}

var (
	_ item[*tenant]  = (*tenant)(nil)
	_ item[*Request] = (*Request)(nil)
)

// heap is a binary heap.
type heap[T item[T]] []T

func (h heap[T]) top() (none T) {
	if len(h) == 0 {
		return none
	}
	return h[0]
}

func (h *heap[T]) push(x T) {
	*x.index() = len(*h)
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

func (h *heap[T]) remove(x T) {
	i, last := *x.index(), len(*h)-1
	h.swap(i, last)
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	*x.index() = -1
	if i < last {
		h.fix((*h)[i])
	}
}

// fix puts x where it belongs after it has changed.
func (h *heap[T]) fix(x T) {
	h.up(*x.index())
	h.down(*x.index())
}

func (h heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heap[T]) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if right := least + 1; right < len(h) && h[right].before(h[least]) {
			least = right
		}
		if !h[least].before(h[i]) {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h heap[T]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].index(), *h[j].index() = i, j
}
