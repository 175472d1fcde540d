package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots/plan"
)

// A span of time has as many slots as can be booked in it while it is empty.
func TestCapacityIsWhatCanBeBooked(t *testing.T) {
	berlin := &plan.Calendar{Zone: "Europe/Berlin", Hours: plan.Hours{{Day: 1, From: 9 * plan.Hour, To: 9*plan.Hour + 7*plan.Minute}, {Day: 2, From: 0, To: plan.Hour}}}
	rapid.Check(t, func(t *rapid.T) {
		v := plan.Version{
			Max:    rapid.IntRange(1, 9).Draw(t, "max"),
			Window: rapid.SampledFrom([]plan.Ticks{40, 4 * plan.Second, 90 * plan.Minute}).Draw(t, "window") * rapid.SampledFrom([]plan.Ticks{1, 1000}).Draw(t, "times"),
			Mode:   rapid.SampledFrom([]plan.Mode{plan.Jitter, plan.Spread}).Draw(t, "mode"),
			Seed:   rapid.Uint64().Draw(t, "seed"),
		}
		if v.Window < plan.MinWindow {
			v.Window = plan.MinWindow
		}
		if rapid.Bool().Draw(t, "calendar") {
			v.Calendar = berlin
		}
		from := plan.Ticks(rapid.Int64Range(0, int64(14*plan.Day)).Draw(t, "from"))
		to := from + plan.Ticks(rapid.Int64Range(1, 200).Draw(t, "windows"))*v.Window/10
		line, err := plan.New(from, v)
		if err != nil {
			t.Fatal(err)
		}
		q, err := line.Quote(from, plan.Request{At: from, Horizon: to - 1}, 1000, newLedger())
		if err != nil {
			t.Fatal(err)
		}
		if got := line.Capacity(from, to); got != int64(q.Granted) {
			t.Fatalf("capacity is %d, and %d can be booked", got, q.Granted)
		}
	})
}

// The capacity of a time in which a config changes is the sum of what its versions
// have there, and does not depend on how the time is cut.
func TestCapacityAcrossVersions(t *testing.T) {
	line, err := plan.New(0,
		plan.Version{Max: 10, Window: 4 * plan.Second},
		plan.Version{From: 8 * plan.Second, Max: 20, Window: 4 * plan.Second},
		plan.Version{From: 14 * plan.Second, Max: 6, Window: 6 * plan.Second, Mode: plan.Spread},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from, to plan.Ticks
		want     int64
	}{
		{0, 4 * plan.Second, 10},
		{4 * plan.Second, 12 * plan.Second, 30},
		{-4 * plan.Second, 0, 0},
		{18 * plan.Second, 30 * plan.Second, 12},
		{14 * plan.Second, 18 * plan.Second, 4},
		{5, 5, 0},
	} {
		if got := line.Capacity(test.from, test.to); got != test.want {
			t.Errorf("from %d to %d: %d slots, want %d", test.from, test.to, got, test.want)
		}
	}
	var sum int64
	const step = 700 * plan.Millisecond
	for at := plan.Ticks(0); at < 40*step; at += step {
		sum += line.Capacity(at, at+step)
	}
	if whole := line.Capacity(0, 40*step); sum != whole {
		t.Errorf("the parts have %d slots, and the whole %d", sum, whole)
	}
}
