package activities

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

const (
	maxBatch     = 200       // items of one signal
	maxBatchSize = 256 << 10 // bytes of one signal, unless one item alone is longer
	batchRPC     = 10 * time.Second
)

// batcher joins items for one budget into signals. The batches form by
// themselves: an item is sent at once if nothing is under way, else it waits for
// the signal that is, together with all that come meanwhile. There is no timer,
// so a lone item pays nothing.
type batcher[T any] struct {
	send func(ctx context.Context, budget string, items []T) error

	mu    sync.Mutex
	lanes map[string]*lane[T] // by budget; only those with a signal under way
}

// lane is what waits for the signal that is under way to one budget.
type lane[T any] struct {
	waiting []*joined[T]
}

type joined[T any] struct {
	ctx  context.Context // of the one that waits
	item T
	size int
	done chan error // of one
}

func newBatcher[T any](send func(ctx context.Context, budget string, items []T) error) *batcher[T] {
	return &batcher[T]{send: send, lanes: map[string]*lane[T]{}}
}

// join returns once the server has acknowledged the signal with the item, or
// its error. When ctx ends first, the item may be sent all the same: items are
// told apart by task and attempt, so that sending again does no harm.
//
// An item that cannot be encoded fails alone; it never gets into a batch.
func (b *batcher[T]) join(ctx context.Context, budget string, item T) error {
	text, err := json.Marshal(item)
	if err != nil {
		return invalid("encode a message for a budget", err)
	}
	j := &joined[T]{ctx: ctx, item: item, size: len(text), done: make(chan error, 1)}
	b.mu.Lock()
	l := b.lanes[budget]
	if l == nil {
		l = &lane[T]{}
		b.lanes[budget] = l
		go b.run(budget, l)
	}
	l.waiting = append(l.waiting, j)
	b.mu.Unlock()
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run sends until nothing waits.
func (b *batcher[T]) run(budget string, l *lane[T]) {
	for {
		batch := b.take(budget, l)
		if batch == nil {
			return
		}
		items := make([]T, len(batch))
		for i, j := range batch {
			items[i] = j.item
		}
		// No member's own deadline: the batch belongs to all of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), batchRPC)
		err := b.send(ctx, budget, items)
		cancel()
		for _, j := range batch {
			j.done <- err
		}
	}
}

// take removes the next batch, leaving out those that nobody waits for any
// more; nil: the lane is empty and gone.
func (b *batcher[T]) take(budget string, l *lane[T]) []*joined[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*joined[T]
	size, n := 0, 0
	for _, j := range l.waiting {
		if len(batch) == maxBatch || len(batch) > 0 && size+j.size > maxBatchSize {
			break
		}
		n++
		if j.ctx.Err() == nil {
			batch = append(batch, j)
			size += j.size
		}
	}
	l.waiting = l.waiting[n:]
	if len(batch) == 0 {
		delete(b.lanes, budget)
	}
	return batch
}
