package rules

import (
	"strings"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// maxLimits is the most limits of a rule.
const maxLimits = 16

// compileLimits makes a rule's own policies. named says that the rule's name
// is sound, so that policies can be called after it.
func (c *compiler) compileLimits(at string, spec *RuleSpec, named bool) []*limit.Policy {
	if n := len(spec.Limits); n == 0 {
		c.problem(at, "is missing; 1 to %d limits are allowed", maxLimits)
	} else if n > maxLimits {
		c.problem(at, "%d limits are given; at most %d are allowed", n, maxLimits)
		return nil
	}
	policies := make([]*limit.Policy, len(spec.Limits))
	for i := range spec.Limits {
		at, l, before := item(at, i), &spec.Limits[i], c.failed
		switch {
		case l.Name == "":
		case isName(l.Name):
			c.namePolicy(at, l.Name)
		default:
			c.problem(at+".name", "%q is not a name; %s", l.Name, nameHelp)
		}
		policies[i] = c.compileLimit(at, l, algo.GCRA)
		policies[i].Name = policyName(spec, l)
		if l.Name == "" && named && c.failed == before {
			c.namePolicy(at, policies[i].Name)
		}
	}
	return policies
}

// namePolicy checks the name of the limit at a path.
func (c *compiler) namePolicy(at, name string) {
	if first, taken := c.policies.at[name]; taken {
		c.conflict(at+".name", "%q is already the name of %s; give this limit a name of its own", name, first)
		return
	}
	c.policies.take(name, c.policyPlace(at))
}

// policyPlace is where the limit at a path stands.
func (c *compiler) policyPlace(at string) string {
	if strings.HasPrefix(at, ".") { // a row's
		return at[1:] + " in " + c.place
	}
	return at
}

func policyName(rule *RuleSpec, l *LimitSpec) string {
	switch {
	case l.Name != "":
		return l.Name
	case len(rule.Limits) == 1:
		return rule.Name
	}
	return rule.Name + "-" + l.Window.String()
}

// compileLimit makes a policy that counts by fallback if l does not say.
func (c *compiler) compileLimit(at string, l *LimitSpec, fallback *algo.Algorithm) *limit.Policy {
	before := c.failed
	p := &limit.Policy{Algorithm: fallback, Quota: l.Quota, Window: time.Duration(l.Window)}
	if l.Algorithm != "" {
		if p.Algorithm = algo.ByName(l.Algorithm); p.Algorithm == nil {
			c.unknown(at+".algorithm", l.Algorithm, algorithmNames())
		}
	}
	if l.Quota < 0 {
		c.problem(at+".quota", "%d is negative; 0 (admit nothing) or more is allowed", l.Quota)
	}
	const shortest, longest = algo.MinWindow, algo.MaxWindow
	if ticks := algo.Ticks(p.Window / time.Microsecond); ticks < shortest || ticks > longest {
		c.problem(at+".window", "%v is out of bounds; 1ms to 365d is allowed", l.Window)
	} else if p.Window%time.Microsecond != 0 {
		c.problem(at+".window", "%v is finer than a microsecond; whole microseconds are allowed", l.Window)
	}
	if l.Burst != nil {
		p.Burst = *l.Burst
		switch {
		case p.Algorithm != nil && !p.Algorithm.Bursts:
			c.problem(at+".burst", "%d is given, and %s has no burst; leave it out, or use gcra", p.Burst, p.Algorithm)
		case p.Burst < 1:
			c.problem(at+".burst", "%d is too small; 1 or more is allowed", p.Burst)
		}
	}
	if c.failed == before {
		if err := p.Algorithm.Check(p.Limit()); err != nil {
			field, message, _ := strings.Cut(err.Error(), ": ")
			c.problem(at+"."+field, "%s", message)
		}
	}
	return p
}

func algorithmNames() []string {
	var names []string
	for _, a := range algo.All {
		names = append(names, a.Name)
	}
	return names
}

// neverAdmits reports whether cost is more than p can ever admit. A quota of 0
// admits nothing whatever the cost is, on purpose.
func neverAdmits(p *limit.Policy, cost int64) bool {
	return p.Algorithm != nil && p.Capacity() > 0 && cost > p.Capacity()
}
