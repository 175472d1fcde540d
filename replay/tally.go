package replay

import (
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
)

const (
	// topKeys is how many keys a report names for each rule.
	topKeys = 10
	// maxCounters is how many keys compete for that.
	maxCounters = 1000
)

// tally counts what one rule says.
type tally struct {
	rule        *rules.Rule
	requests    int64
	denied      int64
	first, last algo.Ticks // denial
	keys        sample[struct{}]
	hits        sketch
	demands     *demands // nil unless a quota is to be suggested
}

func newTally(rule *rules.Rule, o *Options) *tally {
	t := &tally{rule: rule, keys: newSample[struct{}](o.MaxKeys), hits: newSketch(maxCounters)}
	if o.Suggest != nil {
		t.demands = newDemands(rule.Policies[0], rule.Spec.Limits[0].Burst, o.MaxKeys)
	}
	return t
}

// count counts a request for which the rule's policies decided ds.
func (t *tally) count(now algo.Ticks, ds []gate.Decision) {
	t.requests++
	if t.demands != nil && t.ownLimit(&ds[0]) {
		t.demands.add(now, ds[0].Key, t.rule.Cost)
	}
	for i := range ds {
		if !ds[i].Allowed {
			t.hit(now, ds[i].Key)
			return
		}
	}
}

// ownLimit reports whether d is by the rule's first limit itself and not by
// that of an override, which has its name.
func (t *tally) ownLimit(d *gate.Decision) bool {
	p := t.rule.Policies[0]
	return d.Limit == p.Quota && d.Window == p.Window
}

func (t *tally) hit(now algo.Ticks, key string) {
	if t.denied++; t.denied == 1 {
		t.first = now
	}
	t.last = now
	t.hits.hit(key)
	if _, known := t.keys.kept[key]; !known && t.keys.takes(key) {
		t.keys.put(key, struct{}{})
	}
}

func (t *tally) report(share float64) RuleReport {
	r := RuleReport{
		Name:        t.rule.Name,
		Shadow:      t.rule.Shadow,
		MaxWait:     rules.Duration(t.rule.MaxWait),
		Requests:    t.requests,
		Denied:      t.denied,
		DeniedShare: ratio(t.denied, t.requests),
		Top:         []KeyHits{},
	}
	var exact bool
	r.KeysDenied, exact = t.keys.count()
	r.KeysEstimated = !exact
	for _, c := range t.hits.top(topKeys) {
		r.Top = append(r.Top, KeyHits{Key: rules.DescribeKey(c.key), Hits: c.hits, Error: c.excess})
	}
	if t.denied > 0 {
		first, last := instant(t.first), instant(t.last)
		r.FirstHit, r.LastHit = &first, &last
	}
	if t.demands != nil {
		r.Suggestion = t.demands.suggest(share)
	}
	return r
}

func ratio(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// suggest returns nil if the policy decided nothing.
func (d *demands) suggest(share float64) *Suggestion {
	quota, denied := d.quota(share)
	if len(d.keys.kept) == 0 {
		return nil
	}
	s := &Suggestion{
		Policy:     d.policy.Name,
		Algorithm:  d.policy.Algorithm.Name,
		Window:     rules.Duration(d.policy.Window),
		Burst:      d.burst,
		Now:        d.policy.Quota,
		Share:      share,
		Keys:       len(d.keys.kept),
		KeysDenied: denied,
		SampledOf:  1 << d.keys.level,
		Exact:      d.exact(),
	}
	if quota <= d.policy.Algorithm.MaxQuota && quota != never {
		s.Quota = &quota
	}
	return s
}
