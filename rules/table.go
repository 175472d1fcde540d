package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// TableRule is the rule of one row of a table.
type TableRule struct {
	Row  int64 // its id
	Spec *RuleSpec
	// Plain: the row has the plain form, and problems name its columns.
	Plain bool
}

// RowProblem is one thing that is wrong with a row.
type RowProblem struct {
	Row int64 // its id
	Problem
}

func (p RowProblem) Error() string {
	if p.Path == "" {
		return fmt.Sprintf("row %d: %s", p.Row, p.Message)
	}
	return fmt.Sprintf("row %d: %s: %s", p.Row, p.Path, p.Message)
}

// TableView is what is made of a table. It does not change.
type TableView struct {
	Rows []Row // in the order of their ids
	// Specs are the rules of Rows, nil for those that cannot be read.
	Specs []*RuleSpec
	// Problems are those of the rows that are enabled, as CompileTable returns them.
	Problems []RowProblem
}

// NameOf returns the name of the rule of row i.
func (v *TableView) NameOf(i int) string {
	if v.Specs[i] != nil {
		return v.Specs[i].Name
	}
	return nameOf(&v.Rows[i])
}

// CompileTable is Compile with the rules of a table behind those of spec. A rule
// of the table that has a problem is left out, and all others hold. So where two
// cannot stand beside each other, the first one holds: that of spec before those
// of the table, and among these the one that comes first.
//
// The Set is nil only if there is a problem in spec.
func CompileTable(spec Spec, table []TableRule) (*Set, []Problem, []RowProblem) {
	c := newCompiler(spec)
	var left []RowProblem
	for i, t := range table {
		problems := c.row(t)
		if t.Plain {
			for i := range problems {
				problems[i].Path = column(problems[i].Path)
			}
		}
		for _, p := range problems {
			left = append(left, RowProblem{t.Row, p})
		}
		if len(c.set.rules) == maxRules && i+1 < len(table) {
			left = append(left, RowProblem{table[i+1].Row, Problem{Message: fmt.Sprintf("it and all rows behind it are left out: at most %d rules are allowed, those of the file among them", maxRules)}})
			break
		}
	}
	set := c.finish()
	return set, c.problems, left
}

// row adds the rule of a row unless it has a problem, and returns its problems.
func (c *compiler) row(t TableRule) []Problem {
	problems, failed := c.problems, c.failed
	c.problems, c.failed, c.names.mine, c.policies.mine = nil, 0, nil, nil
	c.place = fmt.Sprintf("row %d of the table", t.Row)
	rule := c.compileRule("", t.Spec)
	rule.Row = t.Row
	c.compileReplaces(".replaces", rule)
	found := c.problems
	if c.failed > 0 {
		c.names.leave()
		c.policies.leave()
	} else {
		c.add(rule)
	}
	c.problems, c.failed = problems, failed
	for i := range found {
		found[i].Path = strings.TrimPrefix(found[i].Path, ".")
	}
	return found
}

// column returns the column of a plain row that a path leads to.
func column(path string) string {
	switch {
	case strings.HasPrefix(path, "match."):
		return "path"
	case strings.HasSuffix(path, ".quota"), path == "cost":
		return "calls"
	case strings.HasSuffix(path, ".window"):
		return "period_ms"
	}
	return path
}

// taken are names, and where they stand.
type taken struct {
	at   map[string]string
	mine []string // those of the row that is being compiled
}

func (t *taken) take(name, at string) {
	t.at[name] = at
	t.mine = append(t.mine, name)
}

// leave gives back the names of a row that is left out.
func (t *taken) leave() {
	for _, name := range t.mine {
		delete(t.at, name)
	}
}

// PlainRule returns the rule that a plain row is, which counts by key.
func PlainRule(r *Row, key []string) *RuleSpec {
	return &RuleSpec{
		Name:   nameOf(r),
		Match:  MatchSpec{Attributes: map[string]Pattern{apiAttribute: Pattern(r.Path)}},
		Key:    slices.Clone(key),
		Limits: []LimitSpec{{Quota: r.Calls, Window: Duration(r.PeriodMS) * Duration(time.Millisecond)}},
	}
}

// nameOf returns the name of a row that has no rule.
func nameOf(r *Row) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("rule-%d", r.ID)
}
