package algo_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit/algo"
)

// charged is a spend that was admitted somewhere.
type charged struct {
	at    algo.Ticks
	units int64
}

func limitToCharge(r *rapid.T, a *algo.Algorithm) algo.Limit {
	quota := rapid.Int64Range(1, min(a.MaxQuota, 1_000_000)).Draw(r, "quota")
	return algo.Limit{
		Quota:  quota,
		Window: algo.Ticks(rapid.Int64Range(int64(algo.MinWindow), int64(algo.Minute)).Draw(r, "window")),
		Burst:  rapid.Int64Range(1, 2*quota).Draw(r, "burst"),
	}
}

func TestChargeOfWhatWasAdmitted(t *testing.T) {
	for _, a := range algo.All {
		t.Run(a.Name, rapid.MakeCheck(func(r *rapid.T) {
			l := limitToCharge(r, a)
			var decided, told algo.State
			now := algo.Ticks(1e15)
			for range rapid.IntRange(1, 30).Draw(r, "spends") {
				now += algo.Ticks(rapid.Int64Range(0, int64(l.Window)).Draw(r, "gap"))
				cost := rapid.Int64Range(1, a.Capacity(l)).Draw(r, "cost")
				s, v := a.Decide(l, decided, now, cost)
				if !v.OK {
					continue
				}
				decided, told = s, a.Charge(l, told, now, cost)
				if !decided.Equal(told) {
					r.Fatalf("a charge of %d at %d gives %+v, Decide %+v", cost, now, told, decided)
				}
			}
		}))
	}
}

// Frames do not care who comes first; a bucket and a log that are told late are
// never more generous than those that were told in order.
func TestChargeOutOfOrder(t *testing.T) {
	for _, a := range algo.All {
		t.Run(a.Name, rapid.MakeCheck(func(r *rapid.T) {
			l := limitToCharge(r, a)
			spends := make([]charged, rapid.IntRange(2, 20).Draw(r, "spends"))
			now := algo.Ticks(1e15)
			for i := range spends {
				now += algo.Ticks(rapid.Int64Range(0, int64(l.Window)/2).Draw(r, "gap"))
				spends[i] = charged{now, rapid.Int64Range(1, 2*l.Quota).Draw(r, "units")}
			}
			var inOrder, shuffled algo.State
			for _, c := range spends {
				inOrder = a.Charge(l, inOrder, c.at, c.units)
			}
			for _, c := range rapid.Permutation(spends).Draw(r, "order") {
				shuffled = a.Charge(l, shuffled, c.at, c.units)
			}
			if a != algo.GCRA {
				if !shuffled.Equal(inOrder) {
					r.Fatalf("in order %+v, shuffled %+v", inOrder, shuffled)
				}
				return
			}
			if shuffled.At != inOrder.At || shuffled.A < inOrder.A || shuffled.A == inOrder.A && shuffled.B < inOrder.B {
				r.Fatalf("shuffled %+v has forgotten something of %+v", shuffled, inOrder)
			}
		}))
	}
}

func TestChargeBelongsToItsFrame(t *testing.T) {
	l := algo.Limit{Quota: 10, Window: algo.Minute, Burst: 10}
	const noon = 12 * algo.Hour
	present := charged{noon + algo.Second, 3}
	for _, tt := range []struct {
		algo *algo.Algorithm
		late charged
		want algo.State
	}{
		{algo.Fixed, charged{noon, 4}, algo.State{At: noon + algo.Second, A: 7}},
		{algo.Fixed, charged{noon - 1, 4}, algo.State{At: noon + algo.Second, A: 3}},
		{algo.Sliding, charged{noon, 4}, algo.State{At: noon + algo.Second, B: 7}},
		{algo.Sliding, charged{noon - 1, 4}, algo.State{At: noon + algo.Second, A: 4, B: 3}},
		{algo.Sliding, charged{noon - algo.Minute, 4}, algo.State{At: noon + algo.Second, A: 4, B: 3}},
		{algo.Sliding, charged{noon - algo.Minute - 1, 4}, algo.State{At: noon + algo.Second, B: 3}},
		{algo.GCRA, charged{noon, 4}, algo.State{At: noon + algo.Second, A: 7}},
	} {
		s := tt.algo.Charge(l, algo.State{}, present.at, present.units)
		if got := tt.algo.Charge(l, s, tt.late.at, tt.late.units); !got.Equal(tt.want) {
			t.Errorf("%s: a late charge of %d at %d gives %+v, want %+v", tt.algo, tt.late.units, tt.late.at, got, tt.want)
		}
	}
}

func TestChargeOfTheLogIsBounded(t *testing.T) {
	l := algo.Limit{Quota: 5, Window: algo.Hour}
	var s algo.State
	for i := range algo.Ticks(20_000) {
		s = algo.Log.Charge(l, s, 1e15+i, 1)
	}
	if n := len(s.Entries()); n > 4*algo.MaxLogQuota {
		t.Errorf("a log of %d bytes is kept", n)
	}
	if _, v := algo.Log.Decide(l, s, 1e15+20_000, 1); v.OK || v.RetryAfter < algo.Hour-10 {
		t.Errorf("%+v; want denied until the last five have left the window", v)
	}
	many := algo.Log.Charge(l, algo.State{}, 1e15, math.MaxInt64)
	if _, v := algo.Log.Decide(l, many, 1e15+algo.Hour-1, 1); v.OK || v.RetryAfter != 1 {
		t.Errorf("after too many at once: %+v; want denied for 1us", v)
	}
}

func TestChargeOfHostileStates(t *testing.T) {
	for _, a := range algo.All {
		t.Run(a.Name, rapid.MakeCheck(func(r *rapid.T) {
			any64 := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64}))
			l := limitToCharge(r, a)
			s := algo.State{At: algo.Ticks(rapid.Int64Range(0, 1<<60).Draw(r, "at")), A: any64.Draw(r, "a"), B: any64.Draw(r, "b")}
			at := algo.Ticks(rapid.Int64Range(0, 1<<60).Draw(r, "charged at"))
			got := a.Charge(l, s, at, rapid.Int64Range(0, math.MaxInt64).Draw(r, "units"))
			if got.At < s.At || got.At > max(s.At, at) {
				r.Fatalf("At of %+v goes to %d", s, got.At)
			}
			if _, v := a.Decide(l, got, max(s.At, at), 1); v.Remaining < 0 || v.RetryAfter < 0 || v.ResetAfter < 0 {
				r.Fatalf("%+v gives %+v", got, v)
			}
		}))
	}
}
