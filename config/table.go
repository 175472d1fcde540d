package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-dev/stint/rules"
)

// Table makes rules of the rows of a table. It remembers what it has read, so
// that a change of one row of many is quickly in force. It is for one goroutine;
// the zero Table is ready to use.
type Table struct {
	read map[int64]readRow
}

// readRow is what has been made of a row's text.
type readRow struct {
	text     string
	spec     *rules.RuleSpec
	problems []rules.Problem
}

// Compile returns the rules of a file that has no problems, and behind them those
// of rows; and what is wrong with rows, in their order. Every row that is wrong is
// left out: a warning is not enough. Rows that are not enabled are passed over.
func (t *Table) Compile(f *File, rows []rules.Row) (*rules.Set, []rules.RowProblem) {
	read := make(map[int64]readRow, len(rows))
	identified := f.identified()
	var table []rules.TableRule
	var found []rules.RowProblem
	for i := range rows {
		row := &rows[i]
		if !row.Enabled {
			if known, ok := t.read[row.ID]; ok {
				read[row.ID] = known
			}
			continue
		}
		spec, problems := t.rule(f, row, read)
		if spec != nil {
			problems = append(problems, f.attributeProblems(spec, identified)...)
		}
		wrong := spec == nil
		for _, p := range problems {
			found = append(found, rules.RowProblem{Row: row.ID, Problem: p})
			wrong = wrong || !p.Warning
		}
		if !wrong {
			table = append(table, rules.TableRule{Row: row.ID, Spec: spec, Plain: row.IsPlain()})
		}
	}
	t.read = read
	set, _, more := rules.CompileTable(f.Spec, table)
	found = append(found, more...)
	slices.SortStableFunc(found, func(a, b rules.RowProblem) int { return cmp.Compare(a.Row, b.Row) })
	return set, found
}

// View returns what is made of rows, as Compile does, and what those say that are
// not enabled.
func (t *Table) View(f *File, rows []rules.Row) *rules.TableView {
	v := &rules.TableView{Rows: rows, Specs: make([]*rules.RuleSpec, len(rows))}
	_, v.Problems = t.Compile(f, rows)
	for i := range rows {
		v.Specs[i], _ = t.rule(f, &rows[i], t.read)
	}
	return v
}

// rule returns the rule of a row, or nil and what is wrong with it.
func (t *Table) rule(f *File, row *rules.Row, read map[int64]readRow) (*rules.RuleSpec, []rules.Problem) {
	if err := row.Check(); err != nil {
		bad, _ := errors.AsType[*rules.RowError](err)
		return nil, []rules.Problem{{Path: bad.Field, Message: bad.Message}}
	}
	if row.IsPlain() {
		return rules.PlainRule(row, f.RulesFrom.Key), nil
	}
	known, ok := t.read[row.ID]
	if !ok || known.text != row.Rule {
		known = readRow{text: row.Rule}
		known.spec, known.problems = DecodeRule(row.Rule)
	}
	read[row.ID] = known
	if known.spec != nil && row.Name != "" && known.spec.Name != row.Name {
		return nil, []rules.Problem{{Path: "name", Message: fmt.Sprintf("%s is not the name of the row's rule, %s; make them the same", quote(row.Name), quote(known.spec.Name))}}
	}
	return known.spec, known.problems
}

// DecodeRule returns the rule that a text says, which is one of the rules of a
// rules file, in YAML or JSON, and what is wrong with it as far as that can be
// told without the others. The rule is nil if there is any problem. A problem's
// message has the line in it if the text has several.
func DecodeRule(text string) (*rules.RuleSpec, []rules.Problem) {
	var spec rules.RuleSpec
	found, failed := decodeText(text, &spec)
	if failed {
		return nil, found
	}
	return &spec, found
}

// decodeText decodes a text into a struct, and reports whether that failed.
func decodeText(text string, into any) (found []rules.Problem, failed bool) {
	d := newDecoder(&problems{rule: true})
	if root := parse([]byte(text), d.problems); root != nil {
		d.value("", root, root, reflect.ValueOf(into).Elem())
	}
	for _, p := range d.sorted() {
		if strings.Contains(strings.TrimSpace(text), "\n") {
			p.Message = fmt.Sprintf("line %d: %s", p.Line, p.Message)
		}
		found = append(found, rules.Problem{Path: p.Path, Message: p.Message, Warning: p.Warning})
	}
	return found, d.failed
}
