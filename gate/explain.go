package gate

import (
	"context"

	"github.com/stint-dev/stint/rules"
)

// Explanation is how a Gate would decide a request now, and why.
type Explanation struct {
	rules.Explanation
	// Outcome is what the limits say, those of rules in shadow even if it is not
	// Allowed. Nothing is charged for it, nobody waits, and no seat is taken.
	Outcome Outcome
	// ReplacedBy says which rule that applies stands in place of another, whether that
	// one would have applied or not.
	ReplacedBy map[*rules.Rule]*rules.Rule
	// Isolation is what a Claim is made by, nil if no request needs a seat.
	Isolation *rules.Isolation
}

// Explain tells how r would be decided by the present Snapshot. No Observer hears of it.
func (g *Gate) Explain(ctx context.Context, r rules.Request) *Explanation {
	s := g.state.Load()
	e := &Explanation{Explanation: s.Rules.Explain(r, g.clock), Isolation: s.Rules.Isolation()}
	out := &e.Outcome
	for i := range e.Rules {
		if x := &e.Rules[i]; x.Unmet.Part == rules.PartNone {
			out.matches = append(out.matches, x.Match)
		}
	}
	out.ends = append(out.ends, len(out.matches))
	e.ReplacedBy = out.replaced()
	out.replace()
	ask := Ask{Peek: true}
	n := out.charge(&ask)
	all := out.Decisions
	out.Allowed, out.Err = g.enforce(ctx, ask, out, n)
	if !out.Allowed {
		out.Decisions = all[:n]
		out.refuse()
	}
	if out.Err == nil {
		out.Decisions = all
		g.shadow(ctx, ask, out, n)
	}
	return e
}

// Finder is a rules.Request that can tell how it found what it knows.
type Finder interface {
	// Findings are all attributes that it looks for, by name.
	Findings() []Finding
}

// Finding is an attribute of a caller, and how it was found.
type Finding struct {
	Attribute string
	// Value is "" if no source yields one.
	Value string
	// Source is what yields it, such as "header X-User".
	Source string
	// Secret says that Value is a credential, and not for people.
	Secret bool
	// Missed are the sources that were asked before, in their order.
	Missed []Missed
}

// Missed is a source that yields nothing.
type Missed struct{ Source, Why string }
