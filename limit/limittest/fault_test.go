package limittest_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
)

// fault is a mistake that a store may make. It is found by one property.
type fault struct {
	name, property string
	update         func(next updater) updater
	wrap           func(*client) limit.Store
	denies         string // the call of which it says that nothing was sent, when it was
	leaks          bool   // leaves a goroutine behind
}

var faults = []fault{
	{name: "sorts the cells", property: "an absent key is the zero State", update: sorted},
	{name: "counts in floating point", property: "States come back as they were", update: before(func(c *limit.Cell) { c.State.A = int64(float64(c.State.A) * 0.999) })},
	{name: "cuts logs at NUL", property: "States come back as they were", update: before(cutLog)},
	{name: "folds case", property: "keys are compared byte by byte", update: renamed(strings.ToLower)},
	{name: "trims blanks", property: "keys are compared byte by byte", update: renamed(func(k string) string { return strings.TrimRight(k, " ") + "." })},
	{name: "repairs Unicode", property: "keys are compared byte by byte", update: renamed(func(k string) string { return strings.ToValidUTF8(k, "\ufffd") })},
	{name: "commits after an error", property: "an error of fn keeps nothing", update: careless},
	{name: "wraps fn's error", property: "an error of fn keeps nothing", update: wrapping},
	{name: "commits clean cells", property: "several keys change together or not at all", update: before(func(c *limit.Cell) { c.TTL, c.Dirty = algo.Day, true })},
	{name: "updates key by key", property: "several keys change together or not at all", update: oneByOne},
	{name: "loses updates", property: "a quota is spent exactly once", update: unlocked},
	{name: "loses updates", property: "takes of one key are linearizable", update: unlocked},
	{name: "reads the clock early", property: "time never goes back for a key", update: early},
	{name: "halves TTLs", property: "a State lives as long as its TTL", update: before(func(c *limit.Cell) { c.TTL /= 2 })},
	{name: "keeps for ever", property: "a State lives as long as its TTL", update: before(func(c *limit.Cell) { c.TTL = algo.Year })},
	{name: "does not look at the context", property: "a context ends a call with at most one effect", update: deaf},
	{name: "rounds waits to milliseconds", property: "a Taker decides like the algorithm", wrap: func(c *client) limit.Store { return rounding{c} }},
	{name: "tells the time in seconds", property: "decision scripts", update: coarse},
	{name: "forgets with its client", property: "States survive their client", wrap: func(c *client) limit.Store { return forgetful{c} }},
	{name: "denies what it has sent", property: "a lost connection is told truthfully", denies: "update"},
	{name: "leaks a goroutine", property: "a closed store says so and leaves nothing running", leaks: true},
	{name: "denies what it has swapped", property: "a lost connection is told truthfully", wrap: swapping(fairly), denies: "swap"},
	{name: "denies what it has taken", property: "a lost connection is told truthfully", wrap: taking(truly), denies: "take bulk"},
	{name: "lists keys twice", property: "a Lister yields each live key once", wrap: func(c *client) limit.Store { return stuttering{c} }},

	{name: "swaps all or nothing", property: swapper, wrap: swapping(allOrNone)},
	{name: "leaves lost cells dirty", property: swapper, wrap: swapping(stubborn)},
	{name: "brings deleted keys back", property: swapper, wrap: swapping(necromantic)},
	{name: "takes a Version of 0 for any", property: swapper, wrap: swapping(forceful)},
	{name: "takes equal States for the same", property: swapper, wrap: swapping(byContent)},
	{name: "swaps the first thousand", property: swapper, wrap: swapping(shortWinded)},
	{name: "swaps in two steps", property: swapper, wrap: swapping(inTwoSteps)},
	{name: "updates without a new Version", property: swapper, wrap: unversioned},
	{name: "halves the TTLs of swaps", property: "a State lives as long as its TTL", wrap: swapping(shortLived)},
	{name: "swaps for nobody", property: "a context ends a call with at most one effect", wrap: swapping(deafSwap)},

	{name: "takes once instead of often", property: bulkTaker, wrap: takingBy(func(t limit.Take, c *limit.Cell) {
		t.Times = 1
		spendTimes(t, c)
	})},
	{name: "takes in floating point", property: bulkTaker, wrap: takingBy(floating)},
	{name: "goes back in time", property: bulkTaker, wrap: takingBy(func(t limit.Take, c *limit.Cell) {
		c.State.At = min(c.State.At, t.Now)
		spendTimes(t, c)
	})},
	{name: "keeps what it took for half its time", property: bulkTaker, wrap: takingBy(func(t limit.Take, c *limit.Cell) {
		spendTimes(t, c)
		c.TTL /= 2
	})},
	{name: "writes what it denies", property: bulkTaker, wrap: takingBy(func(t limit.Take, c *limit.Cell) {
		if v := spendTimes(t, c); !v.OK {
			c.TTL, c.Dirty = v.ResetAfter, true
		}
	})},
	{name: "tells what it has left", property: bulkTaker, wrap: taking(tellsAfter)},
	{name: "takes in two steps", property: "a quota is spent exactly once", wrap: taking(takeInTwoSteps)},

	{name: "hears everything twice", property: notifier, wrap: noting(func(n notes) limit.Notifier { return doubling{n} })},
	{name: "sends in the background", property: notifier, wrap: noting(func(n notes) limit.Notifier { return hasty{n} })},
	{name: "loses its connection without a word", property: notifier, wrap: noting(func(n notes) limit.Notifier { return silent{n} })},

	{name: "looks at two keys of many", property: scattered, wrap: placing(func(keys []string) bool {
		return samePlace(keys[:min(len(keys), 2)])
	})},
	{name: "keeps single keys apart", property: scattered, wrap: placing(func(keys []string) bool {
		return len(keys) > 1 && samePlace(keys)
	})},
}

const (
	swapper   = "a Swapper commits what nobody has changed"
	bulkTaker = "a BulkTaker decides like the algorithm"
	notifier  = "what a Notifier says is heard"
	scattered = "a Scattered store knows which keys go together"
)

const faultNumber = "STINT_TEST_FAULT"

// TestFaultyStore fails, as it should. TestRunFindsFaults runs it.
func TestFaultyStore(t *testing.T) {
	var number int
	if _, err := fmt.Sscan(os.Getenv(faultNumber), &number); err != nil {
		t.Skip("runs only when " + faultNumber + " is set")
	}
	limittest.Run(t, (&server{fault: faults[number]}).harness())
}

func TestRunFindsFaults(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for number, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), self, "-rapid.nofailfile", "-test.run", "^TestFaultyStore$/^"+strings.ReplaceAll(f.property, " ", "_")+"$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", faultNumber, number))
			out, err := cmd.CombinedOutput()
			want := "--- FAIL: TestFaultyStore/" + strings.ReplaceAll(f.property, " ", "_")
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("a store that %s passes; want a line with %q. Its output:\n%s", f.name, want, out)
			}
		})
	}
}

// before calls spoil for every cell that is about to be committed.
func before(spoil func(*limit.Cell)) func(updater) updater {
	return func(next updater) updater {
		return func(ctx context.Context, keys []string, fn change) error {
			return next(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
				if err := fn(now, cells); err != nil {
					return err
				}
				for i := range cells {
					spoil(&cells[i])
				}
				return nil
			})
		}
	}
}

func cutLog(c *limit.Cell) {
	entries, _, _ := strings.Cut(c.State.Entries(), "\x00")
	c.State = c.State.WithEntries(entries)
}

func renamed(rename func(key string) string) func(updater) updater {
	return func(next updater) updater {
		return func(ctx context.Context, keys []string, fn change) error {
			others := make([]string, len(keys))
			for i, k := range keys {
				others[i] = k
				if k != "" {
					others[i] = rename(k)
				}
			}
			return next(ctx, others, fn)
		}
	}
}

func sorted(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		return next(ctx, slices.Sorted(slices.Values(keys)), fn)
	}
}

func careless(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		var failure error
		err := next(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
			failure = fn(now, cells)
			return nil
		})
		if failure != nil {
			return failure
		}
		return err
	}
}

func wrapping(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		if err := next(ctx, keys, fn); err != nil {
			return &limit.StoreError{Store: "remote", Op: "update", Err: err}
		}
		return nil
	}
}

func oneByOne(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		if len(keys) < 2 {
			return next(ctx, keys, fn)
		}
		for _, k := range keys {
			if err := next(ctx, []string{k}, fn); err != nil {
				return err
			}
			travel()
		}
		return nil
	}
}

// unlocked reads, decides and only then writes.
func unlocked(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		var decided []limit.Cell
		err := next(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
			decided = slices.Clone(cells)
			return fn(now, decided)
		})
		if err != nil {
			return err
		}
		travel()
		return next(ctx, keys, func(_ algo.Ticks, cells []limit.Cell) error {
			copy(cells, decided)
			return nil
		})
	}
}

// travel takes as long as a network may, so that others get between.
func travel() { time.Sleep(rand.N(300 * time.Microsecond)) }

func early(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		var early algo.Ticks
		err := next(ctx, keys, func(now algo.Ticks, _ []limit.Cell) error {
			early = now
			return nil
		})
		if err != nil {
			return err
		}
		travel()
		return next(ctx, keys, func(_ algo.Ticks, cells []limit.Cell) error { return fn(early, cells) })
	}
}

func deaf(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		return next(context.WithoutCancel(ctx), keys, fn)
	}
}

func coarse(next updater) updater {
	return func(ctx context.Context, keys []string, fn change) error {
		return next(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
			return fn(now-now%algo.Second, cells)
		})
	}
}

type rounding struct{ *client }

func (r rounding) Take(ctx context.Context, p *limit.Policy, key string, cost int64) (algo.Verdict, error) {
	v, err := r.server.states.Take(ctx, p, key, cost)
	v.RetryAfter = (v.RetryAfter + algo.Millisecond - 1) / algo.Millisecond * algo.Millisecond
	return v, err
}

type forgetful struct{ *client }

func (f forgetful) Close() error {
	f.server.start()
	return f.client.Close()
}

type stuttering struct{ *client }

func (s stuttering) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		for c, err := range s.server.states.List(ctx, prefix) {
			for range 2 {
				if !yield(c, err) {
					return
				}
			}
		}
	}
}
