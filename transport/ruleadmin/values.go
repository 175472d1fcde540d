package ruleadmin

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/strictjson"
)

// Rule is a rule of the table.
type Rule struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
	Shadow  bool   `json:"shadow"`
	State   State  `json:"state"`
	// Problems are why it is Refused, and what was probably not meant.
	Problems []FieldError `json:"problems,omitempty"`
	// Rule is what a rules file has. It is left out if it cannot be read.
	Rule json.RawMessage `json:"rule,omitempty"`
	// Plain is the plain form of the row, if that is what it has.
	Plain *Plain `json:"plain,omitempty"`
	// Revision is another one after every change.
	Revision int64 `json:"revision"`
	// Modified is when it was changed last, on the database's clock, and ModifiedBy who
	// did; it is left out if that was by SQL.
	Modified   string `json:"modified"`
	ModifiedBy string `json:"modifiedBy,omitempty"`
}

// State says what has become of a rule.
type State string

const (
	InForce  State = "in force" // on every node, within a second
	Disabled State = "disabled"
	Refused  State = "refused" // see Problems
)

// Plain is a path, and how many calls of it each caller may make in a period.
type Plain struct {
	Path   string `json:"path"`
	Calls  int64  `json:"calls"`
	Period string `json:"period"` // such as 1m
}

// Rules is a page of rules, in the order of their ids.
type Rules struct {
	Rules []Rule `json:"rules"`
	// NextCursor asks for the next page; it is left out if there is none.
	NextCursor string `json:"nextCursor,omitempty"`
}

// History is a page of changes, the newest first.
type History struct {
	Changes    []Change `json:"changes"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// Change is one change of a rule.
type Change struct {
	// Change is its number, for a rollback.
	Change int64  `json:"change"`
	At     string `json:"at"`
	// By is who made it. It is left out if it was found: somebody had changed the row
	// by SQL.
	By      string `json:"by,omitempty"`
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Deleted bool   `json:"deleted"`
	Enabled bool   `json:"enabled"`
	// Text is what the rule was after the change, or before it if it was Deleted, as
	// PUT reads it.
	Text     string `json:"text"`
	Revision int64  `json:"revision"`
}

// newRule returns row i of a view.
func newRule(v *rules.TableView, i int) Rule {
	row, spec := &v.Rows[i], v.Specs[i]
	r := Rule{
		ID: row.ID, Name: v.NameOf(i), Enabled: row.Enabled, State: InForce,
		Revision: row.Revision, Modified: formatTime(row.Modified), ModifiedBy: row.By,
	}
	for _, p := range problemsOf(v, row.ID) {
		r.Problems = append(r.Problems, FieldError{Field: field(p.Path), Message: p.Message, Warning: p.Warning})
		if !p.Warning {
			r.State = Refused
		}
	}
	if !row.Enabled {
		r.State = Disabled
	}
	if spec != nil {
		r.Rule, r.Shadow = config.EncodeRule(spec), spec.Shadow
	}
	if row.IsPlain() {
		r.Plain = &Plain{row.Path, row.Calls, (rules.Duration(row.PeriodMS) * rules.Duration(time.Millisecond)).String()}
	}
	return r
}

// problemsOf returns the problems of a row, which stand together.
func problemsOf(v *rules.TableView, id int64) []rules.RowProblem {
	i, found := slices.BinarySearchFunc(v.Problems, id, func(p rules.RowProblem, id int64) int { return int(min(1, max(-1, p.Row-id))) })
	if !found {
		return nil
	}
	end := i
	for end < len(v.Problems) && v.Problems[end].Row == id {
		end++
	}
	return v.Problems[i:end]
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z") }

// indexOf returns the row that a part of a path names: by its id if that is what it
// is, and by its name otherwise.
func indexOf(v *rules.TableView, text string) (int, error) {
	i, found := -1, false
	if id, err := parseID(text); err == nil {
		i, found = slices.BinarySearchFunc(v.Rows, id, func(r rules.Row, id int64) int { return int(min(1, max(-1, r.ID-id))) })
	} else {
		for i = range v.Rows {
			if found = v.NameOf(i) == text; found {
				break
			}
		}
	}
	if !found {
		return 0, problem(http.StatusNotFound, "The table has no rule %q. Rules of the file are not in it.", strictjson.Shorten(text))
	}
	return i, nil
}

// parseID reads what is an id and no name.
func parseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 || text[0] == '+' || text[0] == '0' {
		return 0, fmt.Errorf("%q is not an id", strictjson.Shorten(text))
	}
	return id, nil
}

// etagOf returns what stands for a revision of a row, and of no other row.
func etagOf(row *rules.Row) string { return fmt.Sprintf(`"%d-%d"`, row.ID, row.Revision) }

// condition is what a request has to find.
type condition struct {
	given, any bool
	tags       []string
}

// parseIfMatch reads If-Match, strictly: what it is there for is lost if it is not
// understood.
func parseIfMatch(values []string) (condition, error) {
	bad := func() (condition, error) {
		return condition{}, problem(http.StatusBadRequest, "If-Match: %q is not an ETag; send the one that came with the rule, such as \"7-12\" with its quotes, or *", strictjson.Shorten(strings.Join(values, ", ")))
	}
	if len(values) == 0 {
		return condition{}, nil
	}
	c := condition{given: true}
	text := strings.TrimSpace(strings.Join(values, ","))
	if text == "*" {
		c.any = true
		return c, nil
	}
	for rest := text; ; {
		rest = strings.TrimLeft(rest, " \t")
		weak := strings.HasPrefix(rest, "W/")
		rest = strings.TrimPrefix(rest, "W/")
		if !strings.HasPrefix(rest, `"`) {
			return bad()
		}
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 || strings.ContainsFunc(rest[1:1+end], func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return bad()
		}
		if !weak { // those never match
			c.tags = append(c.tags, rest[:end+2])
		}
		rest = strings.TrimLeft(rest[end+2:], " \t")
		if rest == "" {
			return c, nil
		}
		if rest[0] != ',' {
			return bad()
		}
		rest = rest[1:]
	}
}

// holds returns nil if a row is what a request has to find.
func (c condition) holds(row *rules.Row) error {
	if !c.given || c.any || slices.Contains(c.tags, etagOf(row)) {
		return nil
	}
	return changedMeanwhile()
}

func changedMeanwhile() error {
	return problem(http.StatusPreconditionFailed, "If-Match: the rule is another one, or somebody has changed it meanwhile. Nothing was changed; read it again.")
}

// required returns why a request that replaces all of a rule must say which.
func (c condition) required() error {
	if c.given {
		return nil
	}
	return problem(http.StatusPreconditionRequired, "If-Match: missing. Send the ETag that came with the rule, so that nobody's change is lost; or *, to change whatever is there.")
}

// values are the parameters of a query.
type values struct{ url.Values }

// query returns the parameters of r, which must be among the allowed ones. One that
// ends with a dot stands for all that begin so.
func query(r *http.Request, allowed ...string) (values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return values{}, problem(http.StatusBadRequest, "query: %v", err)
	}
	for name, all := range q {
		known := slices.ContainsFunc(allowed, func(a string) bool { return a == name || strings.HasSuffix(a, ".") && strings.HasPrefix(name, a) })
		switch {
		case !known && len(allowed) == 0:
			return values{}, problem(http.StatusBadRequest, "%s: unknown parameter; none is allowed here", strictjson.Shorten(name))
		case !known:
			return values{}, problem(http.StatusBadRequest, "%s: unknown parameter; %s", strictjson.Shorten(name), strictjson.List(allowed))
		case len(all) > 1:
			return values{}, problem(http.StatusBadRequest, "%s: given twice", strictjson.Shorten(name))
		}
	}
	return values{q}, nil
}

// limit returns how many are wanted.
func (q values) limit() (int, error) {
	if !q.Has("limit") {
		return 100, nil
	}
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n < 1 || n > MaxPage {
		return 0, problem(http.StatusBadRequest, "limit: %q is out of bounds; 1 to %d is allowed", strictjson.Shorten(q.Get("limit")), MaxPage)
	}
	return n, nil
}

// cursor returns what comes before the page that is wanted; 0 if it is the first.
func (q values) cursor(kind string) (int64, error) {
	if !q.Has("cursor") {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(q.Get("cursor"))
	digits, ok := strings.CutPrefix(string(text), kind)
	if n, bad := parseID(digits + ""); err == nil && ok && bad == nil {
		return n, nil
	}
	return 0, problem(http.StatusBadRequest, "cursor: %q is made up; send a nextCursor as it was, or none for the first page", strictjson.Shorten(q.Get("cursor")))
}

func newCursor(kind string, n int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s%d", kind, n))
}

// truth returns a parameter that is true or false.
func (q values) truth(name string, otherwise bool) (bool, error) {
	switch text := q.Get(name); {
	case !q.Has(name):
		return otherwise, nil
	case text == "true", text == "false":
		return text == "true", nil
	default:
		return false, problem(http.StatusBadRequest, "%s: %q is not allowed; true and false are", name, strictjson.Shorten(text))
	}
}
