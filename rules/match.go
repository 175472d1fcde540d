package rules

import (
	"cmp"
	"slices"
	"time"
)

// Match appends to dst the rules that apply to r, in the order of the Spec.
// clock is only called if an override that would apply has an end.
//
// It allocates the keys of the matches, a copy of a path or host that is not
// in normal form, the name of the API if a rule depends on it and it is not a
// part of the path, and more room in dst if it needs it.
func (s *Set) Match(dst []Match, r Request, clock func() time.Time) []Match {
	caller := s.caller(r)
	first := len(dst)
	s.templates.visit(&caller, func(i int32) {
		rule, own := s.rules[i], caller
		own.variables = rule.match.variables
		if rule.match.test(&own) == (mismatch{}) {
			dst = append(dst, rule.apply(&own, clock))
		}
	})
	slices.SortFunc(dst[first:], func(m, n Match) int { return cmp.Compare(m.Rule.position, n.Rule.position) })
	return dst
}

// caller returns what r says, as rules see it.
func (s *Set) caller(r Request) attributes {
	a := attributes{request: r, path: NormalizePath(r.Path()), plans: &s.plans}
	if s.usesAPI {
		a.api = s.paths.api(a.path)
	}
	return a
}

// apply returns the Match of a request that r matches.
func (r *Rule) apply(a *attributes, clock func() time.Time) Match {
	m := Match{Rule: r, Policies: r.Policies, Override: r.overrides.first(a, clock)}
	if m.Override >= 0 {
		m.Policies = r.overrides.all[m.Override].policies
		m.Exempt = r.Spec.Overrides[m.Override].Exempt
	}
	if !m.Exempt {
		m.Key = makeKey(r.key, a)
	}
	return m
}
