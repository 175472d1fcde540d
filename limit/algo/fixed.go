package algo

// Fixed counts in windows that lie end to end and are aligned to the Unix
// epoch: State.At is the instant of the newest change and State.A the units
// spent in its window.
//
// It is the cheapest to explain and the loosest: Quota units at the end of a
// window and Quota at the start of the next pass together, so an interval of
// one Window may admit 2*Quota.
var Fixed = &Algorithm{
	Name:     "fixed",
	ID:       'f',
	Decide:   fixed,
	Charge:   fixedCharge,
	Used:     func(l Limit, s State, now Ticks) float64 { _, n := fixedCount(l, s, max(now, s.At)); return float64(n) },
	MaxQuota: MaxQuota,
}

func fixed(l Limit, s State, now Ticks, cost int64) (State, Verdict) {
	if l.Quota == 0 {
		return s, nothing(l, cost)
	}
	lag := max(now, s.At) - now
	now += lag
	start, spent := fixedCount(l, s, now)
	next := add(lag, start+l.Window-now)

	if cost > 0 && cost > l.Quota-spent {
		return s, Verdict{Remaining: max(0, l.Quota-spent), RetryAfter: next, ResetAfter: next}
	}
	spent = max(0, spent+cost)
	v := Verdict{OK: true, Remaining: max(0, l.Quota-spent)}
	if spent > 0 {
		v.ResetAfter = next
	}
	switch {
	case cost == 0:
		return s, v
	case spent == 0:
		return State{}, v
	}
	return State{At: now, A: spent}, v
}

func fixedCharge(l Limit, s State, at Ticks, units int64) State {
	if l.Quota == 0 || units == 0 {
		return s
	}
	if now := max(at, s.At); at >= now-now%l.Window {
		_, spent := fixedCount(l, s, now)
		return State{At: now, A: sum(spent, units)}
	}
	return s // of a window that is over
}

// fixedCount returns the start of the window that holds now and what was spent in it.
func fixedCount(l Limit, s State, now Ticks) (start Ticks, spent int64) {
	start = now - now%l.Window
	if s.At >= start {
		spent = max(0, s.A)
	}
	return start, spent
}
