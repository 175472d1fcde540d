package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Part is a part of a match that a request may not meet.
type Part uint8

const (
	// PartNone: nothing stands in the way.
	PartNone Part = iota
	PartPath
	PartMethod
	PartHost
	PartHeader
	PartAttribute
	// PartUntil: an override has ended.
	PartUntil
)

var partNames = [...]string{"none", "path", "method", "host", "header", "attribute", "until"}

func (p Part) String() string {
	if int(p) < len(partNames) {
		return partNames[p]
	}
	return fmt.Sprintf("Part(%d)", p)
}

// Unmet is the first part of a match that a request does not meet.
type Unmet struct {
	Part Part
	// Name is that of the header or the attribute.
	Name string
	// Got is what the request has, or "" if it has none.
	Got string
	// Want is what is asked for, as the Spec has it: several methods have a comma
	// between them, and "" is an attribute or a header that must be absent.
	Want string
}

// Explained is what became of one rule.
type Explained struct {
	Rule *Rule
	// Unmet says why the rule does not match. Its Part is PartNone if it does.
	Unmet Unmet
	// Match is what applies, if the rule does match.
	Match Match
	// Overrides say why the overrides do not apply that come before the one which
	// does, or why none does.
	Overrides []Unmet
}

// Explanation is what a Set makes of a request, and why.
type Explanation struct {
	// Path is the request's path in normal form, and API the name of the API that
	// it calls.
	Path, API string
	// Plan is the plan that the caller belongs to, or "".
	Plan string
	// Rules are all of the Set, in its order.
	Rules []Explained
	// Seated says that the request needs seats, and Claim which.
	Seated bool
	Claim  Claim
	// Route is the place in IsolationSpec.Routes of what decides about seats, or -1.
	Route int
}

// Explain does what Match does, and what Isolation's Claim does, by the same tests,
// and tells of every rule what became of it. It is for people: it asks for more
// attributes than Match, and its cost grows with the rules.
func (s *Set) Explain(r Request, clock func() time.Time) Explanation {
	caller := s.caller(r)
	caller.api = s.paths.api(caller.path)
	e := Explanation{Path: caller.path, API: caller.api, Rules: make([]Explained, len(s.rules)), Route: -1}
	e.Plan, _ = caller.plan()
	for i, rule := range s.rules {
		want := rule.Spec.Match.Path
		got := caller.path
		if rule.match.ofAPI {
			got = caller.api
		}
		e.Rules[i] = Explained{Rule: rule, Unmet: Unmet{Part: PartPath, Got: got, Want: want}} // unless it is visited
	}
	if s.isolation != nil {
		e.Claim, e.Route, e.Seated = s.isolation.claim(&caller)
	}
	caller.everyone = true
	s.templates.visit(&caller, func(i int32) {
		rule, own := s.rules[i], caller
		own.variables = rule.match.variables
		e.Rules[i].Unmet = rule.match.describe(rule.match.test(&own), &own)
		if e.Rules[i].Unmet.Part == PartNone {
			e.Rules[i].Match = rule.apply(&own, clock)
			e.Rules[i].Overrides = rule.overrides.explain(&own, clock)
		}
	})
	return e
}

// describe writes what a request does not meet.
func (m *matcher) describe(unmet mismatch, a *attributes) Unmet {
	switch unmet.part {
	case PartMethod:
		return Unmet{Part: PartMethod, Got: a.request.Method(), Want: strings.Join(m.methods, ",")}
	case PartHost:
		want := m.host.name
		if m.host.below {
			want = "*" + want
		}
		return Unmet{Part: PartHost, Got: normalizeHost(a.request.Host()), Want: want}
	case PartHeader:
		condition := m.headers[unmet.at]
		return Unmet{PartHeader, condition.name, a.request.Header(condition.name), condition.String()}
	case PartAttribute:
		return a.describe(m.attributes[unmet.at])
	}
	return Unmet{}
}

func (a *attributes) describe(c condition) Unmet {
	got, _ := a.get(c.name)
	return Unmet{PartAttribute, c.name, got, c.String()}
}

// explain tells why the overrides do not apply that come before the first which does.
func (o *overrides) explain(a *attributes, clock func() time.Time) (why []Unmet) {
	for i := range o.all {
		switch unmet := o.all[i].test(a, clock); unmet.part {
		case PartNone:
			return why
		case PartUntil:
			why = append(why, Unmet{Part: PartUntil, Want: o.all[i].until.Format(time.RFC3339)})
		default:
			why = append(why, a.describe(o.all[i].when[unmet.at]))
		}
	}
	return why
}

// String writes a pattern as the Spec has it.
func (p pattern) String() string {
	switch p.kind {
	case present:
		return "*"
	case prefix:
		return p.text + "*"
	}
	return p.text
}

// IsCredential reports whether what a header or parameter of that name holds is what
// its sender proves itself by, as far as the name tells. It is not for people to see.
func IsCredential(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "authorization", "proxy-authorization", "cookie":
		return true
	}
	return slices.ContainsFunc([]string{"key", "token", "secret", "password", "session", "signature"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// api returns the API that m asks for, with a * behind it if it is a prefix.
func (m *matcher) api() string {
	for i := range m.attributes {
		if c := &m.attributes[i]; c.name == apiAttribute && (c.kind == exact || c.kind == prefix) {
			return c.String()
		}
	}
	if !m.ofAPI {
		return ""
	}
	var name strings.Builder
	for _, s := range m.template {
		name.WriteByte('/')
		switch s.kind {
		case segmentText:
			name.WriteString(s.text)
		case segmentOne:
			name.WriteString("{" + s.text + "}")
		case segmentRest:
			name.WriteString("{" + s.text + "...}")
		}
	}
	return name.String()
}
