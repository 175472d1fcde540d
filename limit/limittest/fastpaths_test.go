package limittest_test

import (
	"context"
	"hash/fnv"
	"sync"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// The optional contracts, each to be put in front of a client.
type (
	swaps  struct{ swap swapFunc }
	takes  struct{ take takeFunc }
	notes  struct{ client *client }
	places struct{ together func(keys []string) bool }
)

type (
	swapFunc func(ctx context.Context, cells []limit.Cell) (algo.Ticks, error)
	takeFunc func(ctx context.Context, takes []limit.Take) error
)

func (s swaps) Swap(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
	return s.swap(ctx, cells)
}

func (t takes) TakesBulk(p *limit.Policy, cost int64) bool { return takesBulk(p, cost) }

func (t takes) TakeBulk(ctx context.Context, takes []limit.Take) error { return t.take(ctx, takes) }

func (p places) Together(keys []string) bool { return p.together(keys) }

// swapping returns a store that is a Swapper, whose swaps are made by swap.
func swapping(swap func(c *client) swapFunc) func(*client) limit.Store {
	return func(c *client) limit.Store {
		return struct {
			*client
			swaps
		}{c, swaps{swap(c)}}
	}
}

// fairly is how swaps are made.
func fairly(c *client) swapFunc { return c.swap }

// taking returns a store that is a BulkTaker, whose takes are made by take.
func taking(take func(c *client) takeFunc) func(*client) limit.Store {
	return func(c *client) limit.Store {
		return struct {
			*client
			takes
		}{c, takes{take(c)}}
	}
}

// truly is how takes are made.
func truly(c *client) takeFunc {
	return c.takeBy(func(t limit.Take, cell *limit.Cell) { spendTimes(t, cell) })
}

func everything(c *client) limit.Store {
	return struct {
		*client
		swaps
		takes
		notes
	}{c, swaps{c.swap}, takes{truly(c)}, notes{c}}
}

// apart returns a store whose keys lie in 64 places. It refuses to update those
// of several.
func apart(c *client) limit.Store {
	next := c.update
	c.update = func(ctx context.Context, keys []string, fn change) error {
		if !samePlace(keys) {
			panic("an update of keys that lie apart")
		}
		return next(ctx, keys, fn)
	}
	return struct {
		*client
		swaps
		places
	}{c, swaps{c.swap}, places{samePlace}}
}

func samePlace(keys []string) bool {
	place := func(key string) uint32 {
		h := fnv.New32a()
		h.Write([]byte(key))
		return h.Sum32() % 64
	}
	for _, key := range keys {
		if place(key) != place(keys[0]) {
			return false
		}
	}
	return true
}

func (c *client) swap(ctx context.Context, cells []limit.Cell) (now algo.Ticks, err error) {
	err = c.call("swap", func() error {
		return c.server.states.Update(ctx, keysOf(cells), func(at algo.Ticks, found []limit.Cell) error {
			now = at
			for i := range found {
				version := c.server.version(found[i])
				if !cells[i].Dirty || cells[i].Version != version {
					cells[i] = limit.Cell{Key: cells[i].Key, State: found[i].State, Version: version}
					continue
				}
				found[i] = cells[i]
				c.server.touch(&cells[i])
			}
			return nil
		})
	})
	return now, err
}

func keysOf(cells []limit.Cell) []string {
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = c.Key
	}
	return keys
}

// takesBulk leaves out one algorithm and the largest quotas, as a store may.
func takesBulk(p *limit.Policy, cost int64) bool {
	return p.Algorithm != algo.Log && p.Quota <= 1<<52 && cost <= 1<<52
}

// takeBy returns a TakeBulk that makes one of each take and the cell of its key.
func (c *client) takeBy(one func(t limit.Take, c *limit.Cell)) takeFunc {
	return func(ctx context.Context, takes []limit.Take) error {
		keys := make([]string, len(takes))
		for i, t := range takes {
			keys[i] = t.Key
			if !takesBulk(t.Policy, t.Cost) {
				panic("a take in bulk that the store has refused")
			}
		}
		return c.call("take bulk", func() error {
			return c.server.commit(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
				for i := range takes {
					takes[i].Before, takes[i].Now = cells[i].State, now
					one(takes[i], &cells[i])
				}
				return nil
			})
		})
	}
}

// spendTimes spends what t asks for from c, and returns the last verdict.
func spendTimes(t limit.Take, c *limit.Cell) (v algo.Verdict) {
	for range t.Times {
		var state algo.State
		if state, v = t.Policy.Decide(c.State, t.Now, t.Cost); !v.OK {
			break
		}
		c.State, c.TTL, c.Dirty = state, v.ResetAfter, true
	}
	return v
}

// board is where the clients of a server call out to each other.
type board struct {
	mu        sync.Mutex
	listeners map[chan string]bool
}

func (b *board) listen() chan string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners == nil {
		b.listeners = make(map[chan string]bool)
	}
	l := make(chan string, 1000)
	b.listeners[l] = true
	return l
}

func (b *board) leave(l chan string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listeners, l)
}

func (b *board) say(message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		l <- message
	}
}

// hangUp ends every conversation.
func (b *board) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		close(l)
	}
	b.listeners = nil
}

func (n notes) Notify(ctx context.Context, message string) error {
	return n.client.call("notify", func() error {
		if err := ctx.Err(); err != nil {
			return &limit.StoreError{Store: "remote", Op: "notify", Err: err}
		}
		n.client.server.board.say(message)
		return nil
	})
}

func (n notes) Listen(ctx context.Context, heard func(message string)) error {
	fault := func(err error) error { return &limit.StoreError{Store: "remote", Op: "listen", Err: err} }
	if err := n.client.call("listen", func() error { return nil }); err != nil {
		return err
	}
	messages := n.client.server.board.listen()
	defer n.client.server.board.leave(messages)
	heard("")
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return fault(errCut)
			}
			heard(m)
		case <-ctx.Done():
			return fault(ctx.Err())
		case <-n.client.done:
			return fault(limit.ErrClosed)
		}
	}
}
