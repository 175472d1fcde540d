package ruleadmin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/strictjson"
)

// list answers GET /admin/rules.
func (a *api) list(ctx context.Context, r *request) (answer, error) {
	q, err := query(r.Request, "cursor", "limit")
	if err != nil {
		return answer{}, err
	}
	after, err1 := q.cursor("after:")
	limit, err2 := q.limit()
	if err := errors.Join(err1, err2); err != nil {
		return answer{}, err
	}
	v, err := a.Table.View(ctx)
	if err != nil {
		return answer{}, err
	}
	page := Rules{Rules: []Rule{}}
	from := len(v.Rows)
	if i := slices.IndexFunc(v.Rows, func(row rules.Row) bool { return row.ID > after }); i >= 0 {
		from = i
	}
	for i := from; i < len(v.Rows); i++ {
		if len(page.Rules) == limit {
			page.NextCursor = newCursor("after:", v.Rows[i-1].ID)
			break
		}
		page.Rules = append(page.Rules, newRule(v, i))
	}
	return answer{status: http.StatusOK, json: page}, nil
}

// get answers GET /admin/rules/{rule}.
func (a *api) get(ctx context.Context, r *request) (answer, error) {
	if _, err := query(r.Request); err != nil {
		return answer{}, err
	}
	v, err := a.Table.View(ctx)
	if err != nil {
		return answer{}, err
	}
	i, err := indexOf(v, r.rule)
	if err != nil {
		return answer{}, err
	}
	got := answer{status: http.StatusOK, etag: etagOf(&v.Rows[i])}
	if strings.Contains(r.Header.Get("Accept"), "application/yaml") {
		got.yaml = config.EncodeRow(&v.Rows[i])
	} else {
		got.json = newRule(v, i)
	}
	return got, nil
}

// create answers POST /admin/rules.
func (a *api) create(ctx context.Context, r *request) (answer, error) {
	q, err := query(r.Request, "enabled")
	if err != nil {
		return answer{}, err
	}
	enabled, err := q.truth("enabled", true)
	if err != nil {
		return answer{}, err
	}
	row, err := decode(r)
	if err != nil {
		return answer{}, err
	}
	row.Enabled = enabled
	a.changing.Lock()
	defer a.changing.Unlock()
	v, err := a.Table.View(ctx)
	if err != nil {
		return answer{}, err
	}
	made, err := a.put(ctx, r, "create", v, -1, row)
	if err != nil {
		return answer{}, err
	}
	made.status, made.location = http.StatusCreated, rulesPath+"/"+strings.Trim(strings.SplitN(made.etag, "-", 2)[0], `"`)
	return made, nil
}

// decode returns the row that a body says.
func decode(r *request) (rules.Row, error) {
	text := string(r.body)
	switch mediaType(r.Request) {
	case "application/json":
		if !json.Valid(r.body) {
			return rules.Row{}, problem(http.StatusBadRequest, "body: this is not JSON; to send YAML, say so: Content-Type: application/yaml")
		}
	case "application/yaml":
	default:
		return rules.Row{}, problem(http.StatusUnsupportedMediaType, "Content-Type: %q is not supported; send application/json or application/yaml", strictjson.Shorten(r.Header.Get("Content-Type")))
	}
	row, problems := config.DecodeRow(text)
	if row == (rules.Row{}) {
		var found []FieldError
		for _, p := range problems {
			found = append(found, FieldError{Field: p.Path, Message: p.Message, Warning: p.Warning})
		}
		return rules.Row{}, invalid(found)
	}
	return row, row.Check()
}

// change makes of a rule what f makes of it, if the request may.
func (a *api) change(ctx context.Context, r *request, what string, mustMatch bool, f func(row rules.Row) (rules.Row, error)) (answer, error) {
	c, err := parseIfMatch(r.Header.Values("If-Match"))
	if err != nil {
		return answer{}, err
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	v, err := a.Table.View(ctx)
	if err != nil {
		return answer{}, err
	}
	i, err := indexOf(v, r.rule)
	if err != nil {
		return answer{}, err
	}
	if mustMatch {
		err = c.required()
	}
	if err := errors.Join(err, c.holds(&v.Rows[i])); err != nil {
		return answer{}, err
	}
	row, err := f(v.Rows[i])
	if err != nil {
		return answer{}, err
	}
	if row == v.Rows[i] { // it is so already
		return answer{status: http.StatusOK, json: newRule(v, i), etag: etagOf(&row)}, nil
	}
	return a.put(ctx, r, what, v, i, row)
}

// put writes a row in place of row i of a view, or a new one if i is -1, unless it or
// others could not hold then.
func (a *api) put(ctx context.Context, r *request, what string, v *rules.TableView, i int, row rules.Row) (answer, error) {
	rows := slices.Clone(v.Rows)
	if at := i; at < 0 {
		if len(rows) >= MaxRows {
			return answer{}, problem(http.StatusConflict, "The table is full: it has %d rules, the most there may be. Delete some.", len(rows))
		}
		at = len(rows)
		if row.ID != 0 { // one that was deleted comes back
			at, _ = slices.BinarySearchFunc(rows, row, func(a, b rules.Row) int { return int(min(1, max(-1, a.ID-b.ID))) })
		}
		rows = slices.Insert(rows, at, row)
		i = at
	} else {
		rows[i] = row
	}
	if err := a.judge(v, rows, i, what); err != nil {
		return answer{}, err
	}
	put, err := a.Source.Put(ctx, row, r.who)
	if errors.Is(err, rules.ErrChanged) {
		err = changedMeanwhile()
	}
	if err != nil {
		return answer{}, err
	}
	rows[i] = put
	now := a.Table.Try(rows)
	a.audit(r, what, now.NameOf(i), put.ID, row.Revision, put.Revision)
	return answer{status: http.StatusOK, json: newRule(now, i), etag: etagOf(&put)}, nil
}

// judge returns what is wrong with rows, of which row i is to be written: with that
// itself, and with others that hold in v and would not then. i is -1 if one was taken
// out. A rule that is wrong can always be disabled.
func (a *api) judge(v *rules.TableView, rows []rules.Row, i int, what string) error {
	next := a.Table.Try(rows)
	own := int64(-1)
	if i >= 0 {
		own = rows[i].ID
		found := problemsOf(next, own)
		if !rows[i].Enabled {
			// What is wrong with it beside others is so only once it is enabled.
			alone := slices.Clone(rows[i : i+1])
			alone[0].Enabled = true
			found = slices.DeleteFunc(slices.Clone(a.Table.Try(alone).Problems), func(p rules.RowProblem) bool { return p.Conflict || strings.HasPrefix(p.Path, "replaces") })
		}
		if err := refusal(found); err != nil && what != "disable" {
			return err
		}
	}
	var broken []FieldError
	for _, p := range next.Problems {
		if p.Warning || p.Row == own || slices.ContainsFunc(problemsOf(v, p.Row), func(o rules.RowProblem) bool { return !o.Warning }) {
			continue
		}
		at, _ := slices.BinarySearchFunc(rows, p.Row, func(r rules.Row, id int64) int { return int(min(1, max(-1, r.ID-id))) })
		if at < len(rows) && rows[at].ID == p.Row {
			broken = append(broken, FieldError{Rule: next.NameOf(at), Field: field(p.Path), Message: p.Message})
		}
	}
	if len(broken) > 0 {
		return conflict(broken)
	}
	return nil
}

// refusal returns why a rule is not taken that has these problems; nil if it is.
func refusal(problems []rules.RowProblem) error {
	var found []FieldError
	wrong, conflicts := 0, 0
	for _, p := range problems {
		found = append(found, FieldError{Field: field(p.Path), Message: p.Message, Warning: p.Warning})
		switch {
		case p.Conflict:
			conflicts++
		case !p.Warning:
			wrong++
		}
	}
	slices.SortStableFunc(found, func(a, b FieldError) int { // what matters comes first
		return map[bool]int{true: 1}[a.Warning] - map[bool]int{true: 1}[b.Warning]
	})
	switch {
	case wrong > 0:
		return invalid(found)
	case conflicts > 0:
		return conflict(found)
	}
	return nil
}

// audit logs a change that was made.
func (a *api) audit(r *request, what, rule string, id, before, after int64) {
	a.Logger.InfoContext(r.Context(), "rule changed", "change", what, "who", r.who, "peer", r.RemoteAddr, "rule", rule, "row", id, "before", before, "after", after)
}

// replace answers PUT /admin/rules/{rule}.
func (a *api) replace(ctx context.Context, r *request) (answer, error) {
	q, err := query(r.Request, "enabled")
	if err != nil {
		return answer{}, err
	}
	row, err := decode(r)
	if err != nil {
		return answer{}, err
	}
	return a.change(ctx, r, "replace", true, func(now rules.Row) (rules.Row, error) {
		row.ID, row.Revision, row.Modified, row.By = now.ID, now.Revision, now.Modified, now.By
		row.Enabled, err = q.truth("enabled", now.Enabled)
		return row, err
	})
}

// remove answers DELETE /admin/rules/{rule}.
func (a *api) remove(ctx context.Context, r *request) (answer, error) {
	if _, err := query(r.Request); err != nil {
		return answer{}, err
	}
	c, err := parseIfMatch(r.Header.Values("If-Match"))
	if err != nil {
		return answer{}, err
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	v, err := a.Table.View(ctx)
	if err != nil {
		return answer{}, err
	}
	i, err := indexOf(v, r.rule)
	if err != nil {
		return answer{}, err
	}
	row := &v.Rows[i]
	if err := errors.Join(c.required(), c.holds(row)); err != nil {
		return answer{}, err
	}
	if err := a.judge(v, slices.Delete(slices.Clone(v.Rows), i, i+1), -1, "delete"); err != nil {
		return answer{}, err
	}
	err = a.Source.Delete(ctx, row.ID, row.Revision, r.who)
	if errors.Is(err, rules.ErrChanged) {
		err = changedMeanwhile()
	}
	if err != nil {
		return answer{}, err
	}
	a.audit(r, "delete", v.NameOf(i), row.ID, row.Revision, 0)
	return answer{status: http.StatusNoContent}, nil
}

// enable, disable, shadow and enforce answer POST /admin/rules/{rule}/ and the like.
// They say one thing of a rule and nothing of the rest, so they need no If-Match.
func (a *api) enable(ctx context.Context, r *request) (answer, error) {
	return a.toggle(ctx, r, "enable", func(row rules.Row) (rules.Row, error) {
		row.Enabled = true
		return row, nil
	})
}

func (a *api) disable(ctx context.Context, r *request) (answer, error) {
	return a.toggle(ctx, r, "disable", func(row rules.Row) (rules.Row, error) {
		row.Enabled = false
		return row, nil
	})
}

func (a *api) shadow(ctx context.Context, r *request) (answer, error) {
	return a.toggle(ctx, r, "shadow", func(row rules.Row) (rules.Row, error) { return a.shadowed(row, true) })
}

func (a *api) enforce(ctx context.Context, r *request) (answer, error) {
	return a.toggle(ctx, r, "enforce", func(row rules.Row) (rules.Row, error) { return a.shadowed(row, false) })
}

func (a *api) toggle(ctx context.Context, r *request, what string, f func(row rules.Row) (rules.Row, error)) (answer, error) {
	if _, err := query(r.Request); err != nil {
		return answer{}, err
	}
	if len(r.body) > 0 {
		return answer{}, problem(http.StatusBadRequest, "body: none is allowed here")
	}
	return a.change(ctx, r, what, false, f)
}

// shadowed returns a row that is in shadow or not. One in the plain form, which cannot
// say so, becomes a rule that counts what it did.
func (a *api) shadowed(row rules.Row, shadow bool) (rules.Row, error) {
	v := a.Table.Try([]rules.Row{row})
	spec := v.Specs[0]
	switch {
	case spec == nil:
		return row, problem(http.StatusConflict, "The rule cannot be read; put it right first.")
	case spec.Shadow == shadow:
		return row, nil
	case row.IsPlain():
		row.Rule, row.Name = string(config.EncodeRule(spec)), spec.Name
		row.Path, row.Calls, row.PeriodMS = "", 0, 0
	}
	var err error
	row.Rule, err = config.SetShadow(row.Rule, shadow)
	if err == nil {
		err = row.Check()
	}
	return row, err
}

// history answers GET /admin/history and GET /admin/rules/{rule}/history. The rule may
// have been deleted if it is named by its id.
func (a *api) history(ctx context.Context, r *request) (answer, error) {
	q, err := query(r.Request, "cursor", "limit")
	if err != nil {
		return answer{}, err
	}
	before, err1 := q.cursor("before:")
	limit, err2 := q.limit()
	if err := errors.Join(err1, err2); err != nil {
		return answer{}, err
	}
	of := rules.HistoryQuery{Before: before, Limit: limit + 1}
	if r.rule != "" {
		if of.Row, err = a.idOf(ctx, r.rule); err != nil {
			return answer{}, err
		}
	}
	changes, err := a.Source.History(ctx, of)
	if err != nil {
		return answer{}, err
	}
	page := History{Changes: []Change{}}
	for i, c := range changes {
		if i == limit {
			page.NextCursor = newCursor("before:", changes[i-1].N)
			break
		}
		page.Changes = append(page.Changes, a.newChange(&c))
	}
	return answer{status: http.StatusOK, json: page}, nil
}

func (a *api) newChange(c *rules.Change) Change {
	name := c.Row.Name
	if name == "" {
		v := a.Table.Try([]rules.Row{c.Row})
		name = v.NameOf(0)
	}
	return Change{
		Change: c.N, At: formatTime(c.At), By: c.By, ID: c.Row.ID, Name: name, Deleted: c.Deleted, Enabled: c.Row.Enabled,
		Text: config.EncodeRow(&c.Row), Revision: c.Row.Revision,
	}
}

// idOf returns the id of a rule, which may have been deleted if text is an id.
func (a *api) idOf(ctx context.Context, text string) (int64, error) {
	if id, err := parseID(text); err == nil {
		return id, nil
	}
	v, err := a.Table.View(ctx)
	if err != nil {
		return 0, err
	}
	i, err := indexOf(v, text)
	if err != nil {
		return 0, err
	}
	return v.Rows[i].ID, nil
}

// rollback answers POST /admin/rules/{rule}/rollback.
func (a *api) rollback(ctx context.Context, r *request) (answer, error) {
	if _, err := query(r.Request); err != nil {
		return answer{}, err
	}
	if got := mediaType(r.Request); got != "application/json" {
		return answer{}, problem(http.StatusUnsupportedMediaType, "Content-Type: %q is not supported; send application/json", strictjson.Shorten(r.Header.Get("Content-Type")))
	}
	n, err := decodeRollback(r.body)
	if err != nil {
		return answer{}, err
	}
	c, err := parseIfMatch(r.Header.Values("If-Match"))
	if err != nil {
		return answer{}, err
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	id, err := a.idOf(ctx, r.rule)
	if err != nil {
		return answer{}, err
	}
	v, err := a.Table.View(ctx)
	if err != nil {
		return answer{}, err
	}
	changes, err := a.Source.History(ctx, rules.HistoryQuery{Row: id, Before: n + 1, Limit: 1})
	if err != nil {
		return answer{}, err
	}
	if len(changes) == 0 || changes[0].N != n {
		return answer{}, problem(http.StatusNotFound, "change: %d is no change of rule %s; GET %s/%s/history lists those there are", n, strictjson.Shorten(r.rule), rulesPath, strictjson.Shorten(r.rule))
	}
	row := changes[0].Row
	row.Revision, row.By = 0, ""
	i, there := slices.BinarySearchFunc(v.Rows, id, func(r rules.Row, id int64) int { return int(min(1, max(-1, r.ID-id))) })
	if !there {
		if c.given {
			return answer{}, changedMeanwhile() // there is nothing that could match
		}
		return a.put(ctx, r, "rollback", v, -1, row)
	}
	if err := errors.Join(c.required(), c.holds(&v.Rows[i])); err != nil {
		return answer{}, err
	}
	row.Revision = v.Rows[i].Revision
	return a.put(ctx, r, "rollback", v, i, row)
}

func decodeRollback(body []byte) (n int64, err error) {
	err = strictjson.Read(body, func(r *strictjson.Reader) []strictjson.Field {
		return []strictjson.Field{strictjson.Required("change", r.Whole(&n, 1, 1<<53-1))}
	})
	return n, err
}
