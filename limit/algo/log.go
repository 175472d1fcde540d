package algo

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// MaxLogQuota bounds the quota of the sliding log, whose State grows with it.
const MaxLogQuota = 4096

// Log is the exact sliding window log: it keeps the instant of every spend of
// the last Window and admits a cost while their sum stays within Quota. Every
// interval of one Window, wherever it begins, admits at most Quota units. A
// State takes some bytes for each instant that was spent at, and a decision
// reads them all, so Quota is at most MaxLogQuota.
//
// State.At is the instant of the newest change, State.A the units in the log
// and State.Log the entries, oldest first: each a varint of the ticks since the
// entry before (the first: since the epoch) and a varint of the units.
var Log = &Algorithm{
	Name:     "log",
	ID:       'l',
	Decide:   logDecide,
	Charge:   logCharge,
	Used:     logUsed,
	MaxQuota: MaxLogQuota,
}

type spend struct {
	at    Ticks
	units int64
}

func logDecide(l Limit, s State, now Ticks, cost int64) (State, Verdict) {
	if l.Quota == 0 {
		return s, nothing(l, cost)
	}
	lag := max(now, s.At) - now
	now += lag

	spends, used := live(l, s, now)
	v := Verdict{OK: cost <= max(0, l.Quota-used)}
	kept := s
	switch {
	case !v.OK:
		v.RetryAfter = add(lag, logWait(l, spends, used+cost-l.Quota, now))
	case cost > 0:
		if n := len(spends); n > 0 && spends[n-1].at == now {
			spends[n-1].units += cost
		} else {
			spends = append(spends, spend{now, cost})
		}
		used += cost
		kept = logState(now, spends, used)
	case cost < 0:
		spends, used = giveBack(spends, used, -max(cost, -math.MaxInt64))
		kept = logState(now, spends, used)
	}
	v.Remaining = max(0, l.Quota-used)
	if n := len(spends); n > 0 {
		v.ResetAfter = add(lag, spends[n-1].at+l.Window-now)
	}
	return kept, v
}

// logCharge keeps the log bounded: of units that were spent at one instant it
// keeps MaxLogQuota, and of all the newest MaxLogQuota or a little more. As long
// as those count nothing is admitted under any quota, so the rest is of no use.
func logCharge(l Limit, s State, at Ticks, units int64) State {
	now := max(at, s.At)
	if l.Quota == 0 || units == 0 || now-at >= l.Window {
		return s
	}
	spends, _ := live(l, s, now)
	i, found := slices.BinarySearchFunc(spends, at, func(e spend, at Ticks) int { return cmp.Compare(e.at, at) })
	if !found {
		spends = slices.Insert(spends, i, spend{at: at})
	}
	spends[i].units = min(MaxLogQuota, sum(spends[i].units, units))
	oldest, used := len(spends), int64(0)
	for oldest > 0 && used < MaxLogQuota {
		oldest--
		used += spends[oldest].units
	}
	return logState(now, spends[oldest:], used)
}

// live returns the spends that still count at now, and their sum. A spend
// counts for one Window: at its instant plus Window it no longer does.
func live(l Limit, s State, now Ticks) (spends []spend, used int64) {
	spends = make([]spend, 0, len(s.Entries())/3+1)
	var at Ticks
	for log := s.Entries(); log != ""; {
		var gap, units uint64
		gap, log = varint(log)
		units, log = varint(log)
		if gap > uint64(max(0, s.At)-at) || units > MaxLogQuota {
			break // not written by logState
		}
		at += Ticks(gap)
		if now-at < l.Window {
			spends = append(spends, spend{at, int64(units)})
			used += int64(units)
		}
	}
	return spends, used
}

// logWait returns how long after now the oldest spends that together hold
// excess units have all stopped counting.
func logWait(l Limit, spends []spend, excess int64, now Ticks) Ticks {
	for _, s := range spends {
		if excess -= s.units; excess <= 0 {
			return s.at + l.Window - now
		}
	}
	return l.Window // a cost above Quota: it will never fit
}

// giveBack removes units, newest first.
func giveBack(spends []spend, used, units int64) ([]spend, int64) {
	for n := len(spends); units > 0 && n > 0; n = len(spends) {
		newest := &spends[n-1]
		back := min(units, newest.units)
		newest.units -= back
		units -= back
		used -= back
		if newest.units == 0 {
			spends = spends[:n-1]
		}
	}
	return spends, used
}

func logState(now Ticks, spends []spend, used int64) State {
	if len(spends) == 0 {
		return State{}
	}
	log := make([]byte, 0, 8+4*len(spends))
	var before Ticks
	for _, s := range spends {
		log = binary.AppendUvarint(log, uint64(s.at-before))
		log = binary.AppendUvarint(log, uint64(s.units))
		before = s.at
	}
	return State{At: now, A: used}.WithEntries(string(log))
}

// varint reads one varint from the front of log. A log that was cut short or
// tampered with reads as far as it makes sense.
func varint(log string) (uint64, string) {
	var x uint64
	for i := 0; i < len(log) && i < binary.MaxVarintLen64; i++ {
		x |= uint64(log[i]&0x7f) << (7 * i)
		if log[i] < 0x80 {
			return x, log[i+1:]
		}
	}
	return x, ""
}

func logUsed(l Limit, s State, now Ticks) float64 {
	_, used := live(l, s, max(now, s.At))
	return float64(used)
}
