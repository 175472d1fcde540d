package rules

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/limit"
)

// maxOverrides is the most overrides of a rule.
const maxOverrides = 1000

// override is a compiled OverrideSpec.
type override struct {
	when     []condition // the plan is one of them
	until    time.Time   // zero if it has no end
	policies []*limit.Policy
}

// test looks for why o does not apply to a caller.
func (o *override) test(a *attributes, clock func() time.Time) mismatch {
	if unmet := a.meet(o.when); unmet != (mismatch{}) {
		return unmet
	}
	if o.ended(clock) {
		return mismatch{part: PartUntil}
	}
	return mismatch{}
}

// ended reports whether o is over. clock is only called if o has an end.
func (o *override) ended(clock func() time.Time) bool {
	return !o.until.IsZero() && !clock().Before(o.until)
}

// outlives reports whether o lasts at least as long as p.
func (o *override) outlives(p *override) bool {
	return o.until.IsZero() || !p.until.IsZero() && !o.until.Before(p.until)
}

// overrides are those of one rule. The first that applies wins.
type overrides struct {
	all   []override
	index exactIndex
}

// first returns the position of the override that applies, or -1.
func (o *overrides) first(a *attributes, clock func() time.Time) int {
	first := len(o.all)
	o.index.visit(a, func(i int32) {
		if int(i) < first && o.all[i].test(a, clock) == (mismatch{}) {
			first = int(i)
		}
	})
	if first == len(o.all) {
		return -1
	}
	return first
}

// compileOverrides makes the overrides of r, whose own policies are complete.
func (c *compiler) compileOverrides(at string, r *Rule) overrides {
	var os overrides
	if n := len(r.Spec.Overrides); n > maxOverrides {
		c.problem(at, "%d overrides are given; at most %d are allowed, put callers that are alike into a plan", n, maxOverrides)
		return os
	}
	for i := range r.Spec.Overrides {
		spec := &r.Spec.Overrides[i]
		o := c.compileOverride(item(at, i), r, spec)
		if by := slices.IndexFunc(os.all, func(earlier override) bool {
			return len(earlier.when) > 0 && earlier.outlives(&o) && covers(earlier.when, o.when)
		}); by >= 0 && len(o.when) > 0 {
			c.problem(item(at, i), "never applies: %s comes first and applies to all of the same callers; put this one before it, or leave it out", item(at, by))
		}
		os.all = append(os.all, o)
		os.index.add(int32(i))
	}
	os.index.build(func(i int32) []condition { return os.all[i].when })
	return os
}

func (c *compiler) compileOverride(at string, r *Rule, spec *OverrideSpec) override {
	before := c.failed
	o := override{when: c.conditions(at+".when", spec.When, c.attributeName)}
	if len(spec.When) == 0 && spec.Plan == "" {
		c.problem(at, "has neither when nor plan; say which callers it is for")
	}
	if spec.Plan != "" {
		if _, ok := slices.BinarySearch(c.plans.names, spec.Plan); !ok {
			c.unknown(at+".plan", spec.Plan, c.plans.names)
		}
		o.when = append(o.when, condition{planAttribute, pattern{exact, spec.Plan}})
	}
	switch {
	case spec.Exempt && len(spec.Limits) > 0:
		c.problem(at, "has both exempt and limits; leave one of them out")
	case !spec.Exempt && len(spec.Limits) == 0:
		c.problem(at, "has neither exempt nor limits; say what it changes")
	case !spec.Exempt && len(r.Policies) == 0:
		// The rule's own limits are wrong, and have been reported.
	case !spec.Exempt && len(spec.Limits) != len(r.Policies):
		c.problem(at+".limits", "%d are given; the rule has %d, and each needs one in its place", len(spec.Limits), len(r.Policies))
	case !spec.Exempt:
		o.policies = c.overrideLimits(at+".limits", r, spec.Limits)
	}
	if spec.Until != nil {
		o.until = *spec.Until
		if o.ended(time.Now) {
			c.warn(at+".until", "%s is past; the override does not apply any more", spec.Until.Format(time.RFC3339))
		}
	}
	if c.failed > before {
		o.when = nil // what is left of it would say too much about others
	}
	return o
}

// overrideLimits makes the policies that stand in place of the rule's own.
// They keep name and algorithm, so that what was spent still counts.
func (c *compiler) overrideLimits(at string, r *Rule, specs []LimitSpec) []*limit.Policy {
	policies := make([]*limit.Policy, len(specs))
	for i := range specs {
		at, spec, base := item(at, i), &specs[i], r.Policies[i]
		if spec.Name != "" && spec.Name != base.Name {
			c.problem(at+".name", "%q is not the name of the limit that it replaces, %q; leave it out", spec.Name, base.Name)
		}
		p := c.compileLimit(at, spec, base.Algorithm)
		if p.Algorithm != nil && base.Algorithm != nil && p.Algorithm != base.Algorithm {
			c.problem(at+".algorithm", "%q is not that of the limit that it replaces, %q, and what was spent would not count; leave it out", p.Algorithm, base.Algorithm)
		}
		if neverAdmits(p, r.Cost) {
			c.problem(at, "can never admit the rule's cost of %d; at most %d fits at once", r.Cost, p.Capacity())
		}
		p.Name, p.Mode, p.MaxOvershoot, p.OnStoreError = base.Name, base.Mode, base.MaxOvershoot, base.OnStoreError
		policies[i] = p
	}
	return policies
}
