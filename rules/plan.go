package rules

import (
	"fmt"
	"maps"
	"slices"
)

// plans says which plan a caller belongs to.
type plans struct {
	names   []string // sorted
	members []members
}

// members are those of all plans that are told by one attribute.
type members struct {
	attribute string
	plan      map[string]int // value to index in plans.names
}

// of returns the plan of the caller, the first by name if there are several.
func (p *plans) of(a *attributes) (string, bool) {
	first := len(p.names)
	for i := range p.members {
		value, _ := a.get(p.members[i].attribute)
		if plan, ok := p.members[i].plan[value]; ok {
			first = min(first, plan)
		}
	}
	if first == len(p.names) {
		return "", false
	}
	return p.names[first], true
}

// compilePlans checks who belongs to the plans.
func (c *compiler) compilePlans(spec map[string]Plan) plans {
	p := plans{names: slices.Sorted(maps.Keys(spec))}
	for i, name := range p.names {
		at := "plans." + name
		if name == "" {
			c.problem(at, "has no name; give it one")
		}
		count := 0
		for _, attribute := range slices.Sorted(maps.Keys(spec[name].Members)) {
			values := spec[name].Members[attribute]
			count += len(values)
			c.compileMembers(&p, i, fmt.Sprintf("%s.members.%s", at, attribute), attribute, values)
		}
		if count == 0 {
			c.warn(at, "has no members; only requests whose attribute plan is %q belong to it", name)
		}
	}
	return p
}

func (c *compiler) compileMembers(p *plans, plan int, at, attribute string, values []string) {
	if _, err := c.attributeName(attribute); err != nil {
		c.problem(at, "%v", err)
		return
	}
	if attribute == planAttribute {
		c.problem(at, "a plan cannot be told by the attribute plan itself; a request that has it belongs to that plan anyway")
		return
	}
	i := slices.IndexFunc(p.members, func(m members) bool { return m.attribute == attribute })
	if i < 0 {
		i = len(p.members)
		p.members = append(p.members, members{attribute, map[string]int{}})
	}
	for j, value := range values {
		if value == "" {
			c.problem(fmt.Sprintf("%s[%d]", at, j), "is empty; name a value of %s", attribute)
			continue
		}
		if first, ok := p.members[i].plan[value]; ok && first != plan {
			c.warn(fmt.Sprintf("%s[%d]", at, j), "%q is in plan %q too, and belongs to that one; list it once", value, p.names[first])
			continue
		}
		p.members[i].plan[value] = plan
	}
}
