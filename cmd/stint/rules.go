package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/transport/ruleadmin"
)

type rulesCommand struct {
	List     rulesListCommand     `cmd:"" help:"List the rules of the table."`
	Get      rulesGetCommand      `cmd:"" help:"Print a rule as it was written."`
	Set      rulesSetCommand      `cmd:"" help:"Add a rule, or replace one."`
	Rm       rulesRmCommand       `cmd:"" help:"Delete a rule."`
	Enable   rulesEnableCommand   `cmd:"" help:"Put a rule in force."`
	Disable  rulesDisableCommand  `cmd:"" help:"Switch a rule off."`
	Shadow   rulesShadowCommand   `cmd:"" help:"Have a rule count and report, and deny nothing; or deny again."`
	History  rulesHistoryCommand  `cmd:"" help:"List who changed what, and when."`
	Rollback rulesRollbackCommand `cmd:"" help:"Make a rule again what a change had made of it."`
}

func (rulesCommand) Help() string {
	return `Asks the API of a running stint whose configuration has rules_from. What is
accepted is in force on every node within a second.

    stint rules set --path '/entity/#' --calls 10 --period 1m
    stint rules list
    stint rules get rule-1 > rule.yaml
    stint rules set rule.yaml
    stint rules history rule-1
    stint rules rollback rule-1 3

STINT_API stands in for --api, and STINT_API_TOKEN is the token to send. A rule
is named by its name or by its id. If somebody has changed a rule since it was
got, set refuses to undo that: get it again.

Exit codes: 0 done, 1 refused or failed, 2 the rule has problems, 64 wrong usage.`
}

// ruleFlags name a rule.
type ruleFlags struct {
	apiFlags
	Rule string `arg:"" help:"The name or the id of a rule."`
}

func (f ruleFlags) path() string { return "/admin/rules/" + url.PathEscape(f.Rule) }

// print prints an answer: as JSON, or as table writes it.
func (f apiFlags) print(w io.Writer, a apiAnswer, v any, table func(w io.Writer)) error {
	if f.Format == "json" {
		_, err := w.Write(a.body)
		return err
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("the API answers nothing that this stint understands: %w", err)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table(t)
	return t.Flush()
}

// printRule prints what has become of a rule.
func (f apiFlags) printRule(w io.Writer, a apiAnswer) error {
	var rule ruleadmin.Rule
	return f.print(w, a, &rule, func(w io.Writer) { ruleTableOf(w, []ruleadmin.Rule{rule}) })
}

func ruleTableOf(w io.Writer, all []ruleadmin.Rule) {
	fmt.Fprintln(w, "ID\tNAME\tSTATE\tLIMITS\tBY\tMODIFIED")
	for _, r := range all {
		state := string(r.State)
		if r.Shadow {
			state += ", shadow"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, state, limitsOf(r), orDash(r.ModifiedBy), r.Modified)
		for _, p := range r.Problems {
			fmt.Fprintf(w, "\t\t  %s: %s\n", orDash(p.Field), p.Message)
		}
	}
}

// limitsOf writes the limits of a rule in a few words, such as 5/1m, 50/1d.
func limitsOf(r ruleadmin.Rule) string {
	var spec struct {
		Limits []struct {
			Quota  int64
			Window string
		}
	}
	if len(r.Rule) == 0 || json.Unmarshal(r.Rule, &spec) != nil {
		return "-"
	}
	var all []string
	for _, l := range spec.Limits {
		all = append(all, fmt.Sprintf("%d/%s", l.Quota, l.Window))
	}
	return strings.Join(all, ", ")
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

type rulesListCommand struct{ apiFlags }

func (c rulesListCommand) Run(ctx context.Context, std streams) error {
	all := ruleadmin.Rules{Rules: []ruleadmin.Rule{}}
	for cursor := ""; ; {
		path := "/admin/rules?limit=1000"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		a, err := c.ask(ctx, http.MethodGet, path, "")
		if err != nil {
			return err
		}
		var page ruleadmin.Rules
		if err := json.Unmarshal(a.body, &page); err != nil {
			return err
		}
		all.Rules = append(all.Rules, page.Rules...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return c.print(std.out, apiAnswer{body: append(body, '\n')}, &all, func(w io.Writer) { ruleTableOf(w, all.Rules) })
}

type rulesGetCommand struct{ ruleFlags }

func (rulesGetCommand) Help() string {
	return `Prints what stint rules set reads. The first line is a comment that tells set
which revision it was, so that nobody's change is lost.`
}

func (c rulesGetCommand) Run(ctx context.Context, std streams) error {
	if c.Format == "json" {
		a, err := c.ask(ctx, http.MethodGet, c.path(), "")
		if err != nil {
			return err
		}
		_, err = std.out.Write(a.body)
		return err
	}
	a, err := c.ask(ctx, http.MethodGet, c.path(), "", "Accept", "application/yaml")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "# stint rules get: revision %s\n%s", a.etag, a.body)
	return err
}

// gotten is the comment that stint rules get puts before a rule.
var gotten = regexp.MustCompile(`^# stint rules get: revision ("([0-9]+)-[0-9]+")\n`)

type rulesSetCommand struct {
	apiFlags
	File     string         `arg:"" optional:"" help:"A file with a rule in YAML or JSON, as stint rules get prints it; - is standard input."`
	Path     string         `placeholder:"PATH" help:"In place of a file: the name of an API, such as /entity/#."`
	Calls    *int64         `placeholder:"N" help:"How many calls of it each caller may make in a period."`
	Period   rules.Duration `placeholder:"DURATION" help:"How long that is, such as 1m."`
	Name     string         `placeholder:"NAME" help:"What the rule is called (default: rule-ID)."`
	Disabled bool           `help:"Do not put it in force yet."`
	Force    bool           `help:"Replace the rule even if somebody has changed it since it was got."`
}

func (rulesSetCommand) Help() string {
	return `From a file, from standard input, or from flags:

    stint rules set uploads.yaml
    stint rules get uploads | sed s/30/60/ | stint rules set -
    stint rules set --path '/entity/#/bundle' --calls 10 --period 1m

A rule of the same name is replaced, and otherwise one is added. With --path and
no --name one is added.`
}

func (c rulesSetCommand) Run(ctx context.Context, std streams) error {
	text, err := c.text(std)
	if err != nil {
		return err
	}
	etag, path := "", ""
	if m := gotten.FindStringSubmatch(text); m != nil {
		etag, path, text = m[1], "/admin/rules/"+m[2], text[len(m[0]):]
	}
	row, problems := config.DecodeRow(text)
	if row == (rules.Row{}) {
		var all server.ConfigError
		for _, p := range problems {
			all = append(all, config.Problem{File: "rule", Path: p.Path, Message: p.Message, Warning: p.Warning})
		}
		return all
	}
	if path == "" && row.Name != "" {
		path = "/admin/rules/" + url.PathEscape(row.Name)
		a, err := c.ask(ctx, http.MethodGet, path, "")
		switch {
		case isStatus(err, http.StatusNotFound):
			path = ""
		case err != nil:
			return err
		}
		etag = a.etag
	}
	if c.Force {
		etag = "*"
	}
	query := ""
	if c.Disabled {
		query = "?enabled=false"
	}
	const yaml = "application/yaml"
	var a apiAnswer
	if path == "" {
		a, err = c.ask(ctx, http.MethodPost, "/admin/rules"+query, text, "Content-Type", yaml)
	} else {
		a, err = c.ask(ctx, http.MethodPut, path+query, text, "Content-Type", yaml, "If-Match", etag)
	}
	if err != nil {
		return err
	}
	return c.printRule(std.out, a)
}

// text returns the rule that the flags, the file or standard input have.
func (c rulesSetCommand) text(std streams) (string, error) {
	plain := c.Path != "" || c.Calls != nil || c.Period != 0 || c.Name != ""
	switch {
	case plain && c.File != "":
		return "", errors.New("give either a file or --path, --calls and --period")
	case plain && (c.Path == "" || c.Calls == nil || c.Period == 0):
		return "", errors.New("--path, --calls and --period go together")
	case plain:
		return config.EncodeRow(&rules.Row{Name: c.Name, Path: c.Path, Calls: *c.Calls, PeriodMS: time.Duration(c.Period).Milliseconds()}), nil
	case c.File == "":
		return "", errors.New("give a file with a rule, - for standard input, or --path, --calls and --period")
	}
	in := std.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 2*ruleadmin.MaxBody))
	return string(text), err
}

type rulesRmCommand struct{ ruleFlags }

func (c rulesRmCommand) Run(ctx context.Context, std streams) error {
	a, err := c.ask(ctx, http.MethodGet, c.path(), "")
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, http.MethodDelete, c.path(), "", "If-Match", a.etag)
	if err == nil && c.Format == "table" {
		id, _, _ := strings.Cut(strings.Trim(a.etag, `"`), "-")
		_, err = fmt.Fprintf(std.out, "deleted; stint rules history %s lists what it was, and rollback brings it back\n", id)
	}
	return err
}

type rulesEnableCommand struct{ ruleFlags }

func (c rulesEnableCommand) Run(ctx context.Context, std streams) error {
	return c.toggle(ctx, std, "/enable")
}

type rulesDisableCommand struct{ ruleFlags }

func (c rulesDisableCommand) Run(ctx context.Context, std streams) error {
	return c.toggle(ctx, std, "/disable")
}

type rulesShadowCommand struct {
	ruleFlags
	Off bool `help:"Deny again."`
}

func (c rulesShadowCommand) Run(ctx context.Context, std streams) error {
	if c.Off {
		return c.toggle(ctx, std, "/enforce")
	}
	return c.toggle(ctx, std, "/shadow")
}

func (f ruleFlags) toggle(ctx context.Context, std streams, verb string) error {
	a, err := f.ask(ctx, http.MethodPost, f.path()+verb, "")
	if err != nil {
		return err
	}
	return f.printRule(std.out, a)
}

type rulesHistoryCommand struct {
	apiFlags
	Rule  string `arg:"" optional:"" help:"The name or the id of a rule; one that was deleted has only its id (default: all rules)."`
	Limit int    `default:"20" placeholder:"N" help:"How many changes to list at most, up to 1000 (default: ${default})."`
	Text  bool   `help:"Print also what each change has made of the rule."`
}

func (c rulesHistoryCommand) Run(ctx context.Context, std streams) error {
	path := "/admin/history"
	if c.Rule != "" {
		path = "/admin/rules/" + url.PathEscape(c.Rule) + "/history"
	}
	a, err := c.ask(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d", path, c.Limit), "")
	if err != nil {
		return err
	}
	var page ruleadmin.History
	return c.print(std.out, a, &page, func(w io.Writer) {
		fmt.Fprintln(w, "CHANGE\tAT\tBY\tID\tNAME\tSTATE")
		for _, h := range page.Changes {
			state := "enabled"
			switch {
			case h.Deleted:
				state = "deleted"
			case !h.Enabled:
				state = "disabled"
			}
			by := h.By
			if by == "" {
				by = "(by SQL)"
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\n", h.Change, h.At, by, h.ID, h.Name, state)
			if c.Text {
				for line := range strings.Lines(h.Text) {
					fmt.Fprintf(w, "    %s\n", strings.TrimRight(line, "\n"))
				}
			}
		}
	})
}

type rulesRollbackCommand struct {
	ruleFlags
	Change int64 `arg:"" help:"The change, as stint rules history numbers it."`
}

func (c rulesRollbackCommand) Run(ctx context.Context, std streams) error {
	now, err := c.ask(ctx, http.MethodGet, c.path(), "")
	headers := []string{"Content-Type", "application/json"}
	switch {
	case isStatus(err, http.StatusNotFound): // it was deleted, or there is none
	case err != nil:
		return err
	default:
		headers = append(headers, "If-Match", now.etag)
	}
	a, err := c.ask(ctx, http.MethodPost, c.path()+"/rollback", fmt.Sprintf(`{"change":%d}`, c.Change), headers...)
	if err != nil {
		return err
	}
	return c.printRule(std.out, a)
}
