package limittest_test

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// loaded returns cells as the store has them.
func loaded(ctx context.Context, c *client, cells []limit.Cell) ([]limit.Cell, error) {
	found := slices.Clone(cells)
	for i := range found {
		found[i].Dirty = false
	}
	_, err := c.swap(ctx, found)
	return found, err
}

// looking returns a swap that looks at what there is before it does anything.
func looking(c *client, spoil func(mine, found []limit.Cell)) swapFunc {
	return func(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
		found, err := loaded(ctx, c, cells)
		if err != nil {
			return 0, err
		}
		spoil(cells, found)
		return c.swap(ctx, cells)
	}
}

func allOrNone(c *client) swapFunc {
	return looking(c, func(mine, found []limit.Cell) {
		for i := range mine {
			if mine[i].Dirty && mine[i].Version != found[i].Version {
				for j := range mine {
					mine[j].Dirty = false
				}
			}
		}
	})
}

func necromantic(c *client) swapFunc {
	return looking(c, func(mine, found []limit.Cell) {
		for i := range mine {
			if found[i].Version == 0 {
				mine[i].Version = 0
			}
		}
	})
}

func forceful(c *client) swapFunc {
	return looking(c, func(mine, found []limit.Cell) {
		for i := range mine {
			if mine[i].Version == 0 {
				mine[i].Version = found[i].Version
			}
		}
	})
}

// byContent makes a Version of the State, which can come back.
func byContent(c *client) swapFunc {
	mark := func(s algo.State) int64 { return int64(s.At) + 1000*s.A + 7*s.B + int64(len(s.Entries())) }
	swap := looking(c, func(mine, found []limit.Cell) {
		for i := range mine {
			if mine[i].Version == mark(found[i].State) {
				mine[i].Version = found[i].Version
			} else {
				mine[i].Version = -1
			}
		}
	})
	return func(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
		now, err := swap(ctx, cells)
		for i := range cells {
			cells[i].Version = mark(cells[i].State)
		}
		return now, err
	}
}

func stubborn(c *client) swapFunc {
	return func(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
		before := slices.Clone(cells)
		now, err := c.swap(ctx, cells)
		for i := range cells {
			cells[i].Dirty = before[i].Dirty
		}
		return now, err
	}
}

func shortWinded(c *client) swapFunc {
	return func(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
		return c.swap(ctx, cells[:min(len(cells), 1000)])
	}
}

// inTwoSteps looks whether a cell is as it was, and writes it whatever happens in
// between.
func inTwoSteps(c *client) swapFunc {
	return func(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
		before, err := loaded(ctx, c, cells)
		if err != nil {
			return 0, err
		}
		travel()
		return looking(c, func(mine, found []limit.Cell) {
			for i := range mine {
				if mine[i].Version == before[i].Version {
					mine[i].Version = found[i].Version
				}
			}
		})(ctx, cells)
	}
}

func shortLived(c *client) swapFunc {
	return looking(c, func(mine, _ []limit.Cell) {
		for i := range mine {
			mine[i].TTL /= 2
		}
	})
}

func deafSwap(c *client) swapFunc {
	return func(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
		return c.swap(context.WithoutCancel(ctx), cells)
	}
}

// unversioned is a store whose updates leave the versions as they are.
func unversioned(c *client) limit.Store {
	c.update = func(ctx context.Context, keys []string, fn change) error {
		return c.call("update", func() error { return c.server.states.Update(ctx, keys, fn) })
	}
	return swapping(fairly)(c)
}

func takingBy(one func(t limit.Take, c *limit.Cell)) func(*client) limit.Store {
	return taking(func(c *client) takeFunc { return c.takeBy(one) })
}

// floating has the units of a token bucket, whole and part, in one float64.
func floating(t limit.Take, c *limit.Cell) {
	spendTimes(t, c)
	if t.Policy.Algorithm == algo.GCRA {
		window := float64(t.Policy.Window.Microseconds())
		units := float64(c.State.A) + float64(c.State.B)/window
		c.State.A = int64(units)
		c.State.B = int64((units - float64(c.State.A)) * window)
	}
}

func tellsAfter(c *client) takeFunc {
	take := truly(c)
	return func(ctx context.Context, takes []limit.Take) error {
		err := take(ctx, takes)
		for i, t := range takes {
			after := limit.Cell{State: t.Before}
			spendTimes(t, &after)
			takes[i].Before = after.State
		}
		return err
	}
}

// takeInTwoSteps reads, decides and only then writes.
func takeInTwoSteps(c *client) takeFunc {
	look := c.takeBy(func(limit.Take, *limit.Cell) {})
	return func(ctx context.Context, takes []limit.Take) error {
		if err := look(ctx, takes); err != nil {
			return err
		}
		travel()
		found := slices.Clone(takes)
		i := -1
		write := c.takeBy(func(t limit.Take, cell *limit.Cell) {
			i++
			cell.State = found[i].Before
			spendTimes(found[i], cell)
		})
		err := write(ctx, takes)
		copy(takes, found)
		return err
	}
}

// noting returns a store that is a Notifier, as spoilt by spoil.
func noting(spoil func(notes) limit.Notifier) func(*client) limit.Store {
	return func(c *client) limit.Store {
		return struct {
			*client
			limit.Notifier
		}{c, spoil(notes{c})}
	}
}

type doubling struct{ notes }

func (d doubling) Listen(ctx context.Context, heard func(string)) error {
	return d.notes.Listen(ctx, func(message string) {
		heard(message)
		heard(message)
	})
}

type hasty struct{ notes }

func (h hasty) Notify(ctx context.Context, message string) error {
	go func() {
		travel()
		h.notes.Notify(context.WithoutCancel(ctx), message)
	}()
	return nil
}

type silent struct{ notes }

func (s silent) Listen(ctx context.Context, heard func(string)) error {
	if err := s.notes.Listen(ctx, heard); ctx.Err() != nil {
		return err
	}
	return nil
}

// placing returns a Scattered store that believes together.
func placing(together func(keys []string) bool) func(*client) limit.Store {
	return func(c *client) limit.Store {
		return struct {
			*client
			swaps
			places
		}{c, swaps{c.swap}, places{together}}
	}
}
