package rules

import (
	"fmt"
	"strings"
)

const (
	maxAttributeName  = 64
	attributeNameHelp = "letters, digits, _ and - are allowed, 1 to 64 of them"
)

// The attributes that every request has.
const (
	methodAttribute = "method"
	hostAttribute   = "host"
	pathAttribute   = "path"
	apiAttribute    = "api"
	planAttribute   = "plan"
)

// IsAttributeName reports whether an attribute may have that name: letters,
// digits, _ and -, 1 to 64 of them.
func IsAttributeName(name string) bool {
	return name != "" && len(name) <= maxAttributeName && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// attributeName returns name if an attribute may have it.
func (c *compiler) attributeName(name string) (string, error) {
	c.usesAPI = c.usesAPI || name == apiAttribute
	if !IsAttributeName(name) {
		return "", fmt.Errorf("%q is not an attribute; %s", name, attributeNameHelp)
	}
	return name, nil
}

// attributes are those of one request as one rule sees them: what the braces
// of its template catch, then the method, host, path and API of the request, then
// what the request says about its caller. A caller without a plan has the one
// whose members it is among.
type attributes struct {
	request   Request
	path      string // normalised
	api       string // if a rule of the Set depends on it
	matched   string // path or api, whichever the rule's template is of
	plans     *plans
	variables []variable // of the rule; none if it is not known yet
	everyone  bool       // to be told why not: an index leaves nothing out
}

func (a *attributes) get(name string) (value string, ok bool) {
	for i := range a.variables {
		if v := &a.variables[i]; v.name == name {
			return v.value(a.matched), true
		}
	}
	switch name {
	case methodAttribute:
		value = a.request.Method()
		return value, value != ""
	case hostAttribute:
		value = normalizeHost(a.request.Host())
		return value, value != ""
	case pathAttribute:
		return a.path, true
	case apiAttribute:
		return a.api, true
	case planAttribute:
		return a.plan()
	}
	return a.request.Attribute(name)
}

func (a *attributes) plan() (string, bool) {
	if plan, _ := a.request.Attribute(planAttribute); plan != "" {
		return plan, true
	}
	return a.plans.of(a)
}

// meet looks for the first of conditions that does not hold.
func (a *attributes) meet(conditions []condition) mismatch {
	for i := range conditions {
		value, _ := a.get(conditions[i].name)
		if !conditions[i].match(value) {
			return mismatch{PartAttribute, i}
		}
	}
	return mismatch{}
}
