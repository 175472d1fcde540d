package gate

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// unavailable is how long a caller should wait when nothing could be decided.
const unavailable = time.Second

// reset makes o ready to be filled in, and keeps its room.
func (o *Outcome) reset() {
	*o = Outcome{Decisions: o.Decisions[:0], matches: o.matches[:0], ends: o.ends[:0], spends: o.spends[:0]}
}

// match adds the rules that apply to the next of an Ask's requests.
func (o *Outcome) match(set *rules.Set, r rules.Request, clock func() time.Time) {
	o.matches = set.Match(o.matches, r, clock)
	o.ends = append(o.ends, len(o.matches))
}

// replaced returns, by the rules that others which apply stand in place of, the first
// that does; nil if there are none.
func (o *Outcome) replaced() (by map[*rules.Rule]*rules.Rule) {
	for i := range o.matches {
		m := &o.matches[i]
		for _, r := range m.Rule.Replaces {
			if m.Exempt {
				break // it does not apply
			}
			if by == nil {
				by = make(map[*rules.Rule]*rules.Rule)
			}
			if by[r] == nil {
				by[r] = m.Rule
			}
		}
	}
	return by
}

// replace takes away the rules that others which apply stand in place of.
func (o *Outcome) replace() {
	replaced := o.replaced()
	if replaced == nil {
		return
	}
	kept, begin := 0, 0
	for i, end := range o.ends {
		for _, m := range o.matches[begin:end] {
			if replaced[m.Rule] == nil {
				o.matches[kept] = m
				kept++
			}
		}
		begin, o.ends[i] = end, kept
	}
	o.matches = o.matches[:kept]
}

// charge lists what the matches cost, the enforced rules before those in
// shadow, and returns how many of the spends are enforced.
func (o *Outcome) charge(ask *Ask) (enforced int) {
	for _, shadow := range []bool{false, true} {
		begin := 0
		for i, end := range o.ends {
			cost := ask.Cost
			if ask.Costs != nil {
				cost = ask.Costs[i]
			}
			for j := begin; j < end; j++ {
				if m := &o.matches[j]; m.Rule.Shadow == shadow {
					o.add(m, i, cost)
				}
			}
			begin = end
		}
		if !shadow {
			enforced = len(o.spends)
		}
	}
	return enforced
}

func (o *Outcome) add(m *rules.Match, request int, cost int64) {
	if cost == 0 {
		cost = m.Rule.Cost
	}
	for _, p := range m.Policies {
		spend := limit.Spend{Policy: p, Key: m.Key, Cost: cost}
		o.apart = o.apart || cost == Look || beyond(spend)
		o.spends = append(o.spends, spend)
		o.Decisions = append(o.Decisions, Decision{Rule: m.Rule, Window: p.Window, Key: m.Key, Request: request})
	}
}

// decide charges what o matched. Rules in shadow are charged for what the
// enforced ones let through, each on its own: exactly as if it, too, were
// enforced.
func (g *Gate) decide(ctx context.Context, ask Ask, o *Outcome) {
	n := o.charge(&ask)
	o.apart = o.apart && ask.Costs != nil
	o.Allowed, o.Err = g.enforce(ctx, ask, o, n)
	if !o.Allowed {
		o.Decisions = o.Decisions[:n]
		o.refuse()
		return
	}
	g.shadow(ctx, ask, o, n)
}

// shadow charges the spends from the n-th on, which are those of rules in shadow.
func (g *Gate) shadow(ctx context.Context, ask Ask, o *Outcome, n int) {
	for at := n; at < len(o.spends); {
		end := at + 1
		for end < len(o.spends) && o.sameRule(at, end) {
			end++
		}
		if _, err := g.take(ctx, o.apart, ask.Peek, o.spends[at:end], o.Decisions[at:end]); err != nil {
			for i := range o.Decisions[at:end] {
				o.Decisions[at+i].Decision = limit.Decision{Policy: o.spends[at+i].Policy.Name, Allowed: true, Degraded: true}
			}
		}
		at = end
	}
}

func (o *Outcome) sameRule(i, j int) bool {
	return o.Decisions[i].Rule == o.Decisions[j].Rule && o.Decisions[i].Request == o.Decisions[j].Request
}

// enforce charges the first n spends, all or nothing, and lets the request
// wait its turn if a rule says so. A request stands in the line of the first
// of its rules that has one.
func (g *Gate) enforce(ctx context.Context, ask Ask, o *Outcome, n int) (bool, error) {
	spends, ds := o.spends[:n], o.Decisions[:n]
	for i := range ds {
		if r := ds[i].Rule; r.MaxQueue > 0 && !ask.Peek && !(o.apart && (spends[i].Cost == Look || beyond(spends[i]))) {
			return g.enforceInLine(ctx, o, spends, ds, i)
		}
	}
	return g.take(ctx, o.apart, ask.Peek, spends, ds)
}

func (g *Gate) enforceInLine(ctx context.Context, o *Outcome, spends []limit.Spend, ds []Decision, at int) (bool, error) {
	rule, spend := ds[at].Rule, spends[at]
	turn := limit.Turn{MaxWait: rule.MaxWait, MaxQueue: rule.MaxQueue, Pace: spend.Policy.Pace(spend.Cost)}
	tries := 0
	passage, err := g.queue.Wait(ctx, limit.StoreKey(spend.Policy, spend.Key), turn, func() (time.Duration, bool, error) {
		tries++
		ok, err := g.take(ctx, o.apart, false, spends, ds)
		return queueable(ds), ok, err
	})
	o.Waited = passage.Waited
	if passage.Admitted || err != nil {
		return passage.Admitted, err
	}
	if tries == 0 {
		// There was no place in line. Tell it with the numbers of now.
		if _, err := g.take(ctx, o.apart, true, spends, ds); err != nil {
			return false, err
		}
		ds[at].Allowed, ds[at].RetryAfter = false, max(ds[at].RetryAfter, passage.RetryAfter)
	}
	return false, nil
}

// queueable returns when denied spends may be tried again: never, as far as
// waiting goes, if a rule denies that has no line.
func queueable(ds []Decision) (retry time.Duration) {
	for _, d := range ds {
		if d.Allowed {
			continue
		}
		if d.Rule.MaxQueue == 0 {
			return math.MaxInt64
		}
		retry = max(retry, d.RetryAfter)
	}
	return retry
}

// beyond reports whether a policy that admits anything can never admit s.
func beyond(s limit.Spend) bool { return s.Policy.Quota > 0 && s.Cost > s.Policy.Capacity() }

// take decides spends, all or nothing, and writes what the policies say to ds.
// apart says that some of spends are not to be charged.
func (g *Gate) take(ctx context.Context, apart, peek bool, spends []limit.Spend, ds []Decision) (bool, error) {
	switch {
	case len(spends) == 0:
		return true, nil
	case apart:
		return g.takeApart(ctx, peek, spends, ds)
	case len(spends) == 1 && !peek:
		d, err := g.limiter.Take(ctx, spends[0].Policy, spends[0].Key, spends[0].Cost)
		ds[0].Decision = d
		return d.Allowed, err
	}
	decide := g.limiter.TakeAll
	if peek {
		decide = g.limiter.PeekAll
	}
	answers, err := decide(ctx, spends)
	if err != nil {
		return false, err
	}
	ok := true
	for i, d := range answers {
		ds[i].Decision = d
		ok = ok && d.Allowed
	}
	return ok, nil
}

// takeApart is take for spends of which some are never charged: those that only
// look, and those that cannot be admitted. All are looked at first; the rest is
// charged if none of them denies.
func (g *Gate) takeApart(ctx context.Context, peek bool, spends []limit.Spend, ds []Decision) (bool, error) {
	looks := slices.Clone(spends)
	var charged []limit.Spend
	var places []int
	ok := true
	for i := range looks {
		switch s := &looks[i]; {
		case s.Cost == Look:
			s.Cost = ds[i].Rule.Cost
		case beyond(*s):
			s.Cost, ok = s.Policy.Capacity(), false
		default:
			charged, places = append(charged, *s), append(places, i)
		}
	}
	answers, err := g.limiter.PeekAll(ctx, looks)
	if err != nil {
		return false, err
	}
	for i, d := range answers {
		if beyond(spends[i]) {
			d.Allowed, d.RetryAfter = false, max(d.RetryAfter, ds[i].Window)
		}
		ds[i].Decision = d
		ok = ok && d.Allowed
	}
	if !ok || peek || len(charged) == 0 {
		return ok, nil
	}
	answers, err = g.limiter.TakeAll(ctx, charged)
	if err != nil {
		return false, err
	}
	for i, d := range answers {
		ds[places[i]].Decision = d
		ok = ok && d.Allowed
	}
	return ok, nil
}

// refuse says how: as the rule does that holds the caller up the longest.
func (o *Outcome) refuse() {
	if o.Err != nil {
		o.Status, o.RetryAfter, o.Decisions = 503, unavailable, o.Decisions[:0]
		return
	}
	for _, d := range o.Decisions {
		if !d.Allowed && (o.Status == 0 || d.RetryAfter > o.RetryAfter) {
			o.Status, o.RetryAfter = d.Rule.Status, d.RetryAfter
		}
	}
}
