package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/internal/progress"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/rest"
)

type explainCommand struct {
	API       string            `default:"http://127.0.0.1:8080" env:"STINT_API" placeholder:"URL" help:"The process to ask (default: ${default})."`
	Config    string            `short:"c" type:"path" placeholder:"FILE" help:"Explain by this rules file alone, as if nothing had been spent, and ask no process."`
	Method    string            `short:"X" placeholder:"METHOD" help:"The method (default: GET)."`
	Header    []string          `short:"H" sep:"none" placeholder:"'NAME: VALUE'" help:"A header; can be repeated."`
	Attribute map[string]string `short:"a" mapsep:"none" placeholder:"NAME=VALUE" help:"What is known of the caller, whatever the request says; can be repeated."`
	Peer      string            `placeholder:"ADDRESS" help:"Where the request comes from."`
	HTTP      string            `name:"http" placeholder:"FILE" help:"A whole request as it is sent, in place of what stands above; - is standard input."`
	Format    string            `enum:"auto,text,json" default:"auto" help:"How to write the answer: auto (the default) is text on a terminal and json elsewhere."`
	Target    string            `arg:"" optional:"" name:"url" help:"What is asked for: a path, or a URL for a host as well."`
}

func (explainCommand) Help() string {
	return `Says who the caller is to the rules, which rules apply and why the others do not,
what they count by, what is left, and what would be decided. Nothing is spent.

    stint explain -a user=ann /items/alex
    stint explain --config stint.yaml -X DELETE -H 'X-User: ann' --peer 10.0.0.1 /items/alex
    stint explain --http request.txt --peer 192.0.2.1`
}

func (c explainCommand) Run(ctx context.Context, std streams) error {
	question, err := c.question(std.in)
	if err != nil {
		return err
	}
	var e *rest.Explanation
	if c.Config != "" {
		e, err = c.byFile(ctx, question, std.err)
	} else {
		e, err = c.byProcess(ctx, question)
	}
	if err != nil {
		return err
	}
	if c.Format == "text" || c.Format == "auto" && progress.IsTerminal(std.out) {
		return writeExplanation(std.out, e)
	}
	encoder := json.NewEncoder(std.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(e)
}

// maxRequest is the longest request that is read, in bytes.
const maxRequest = rest.MaxBody / 2

// question is what the flags ask.
func (c explainCommand) question(in io.Reader) (q rest.Question, err error) {
	q.Peer, q.Descriptor.Attributes = c.Peer, c.Attribute
	if (c.HTTP != "") == (c.Target != "") {
		return q, errors.New("explain: give what is asked for, a path or a URL, or a request with --http")
	}
	if c.HTTP != "" {
		if c.Method != "" || c.Header != nil {
			return q, errors.New("explain: --http has a method and headers of its own; leave out -X and -H")
		}
		q.HTTP, err = readRequest(c.HTTP, in)
		return q, err
	}
	q.Descriptor.Method = "GET"
	if c.Method != "" {
		q.Descriptor.Method = c.Method
	}
	q.Descriptor.Path = c.Target
	if !strings.HasPrefix(c.Target, "/") {
		u, err := url.Parse(c.Target)
		if err != nil || u.Host == "" {
			return q, fmt.Errorf("explain: %q is neither a path nor a URL; such as /items/alex and http://example.com/items/alex are", c.Target)
		}
		q.Descriptor.Host, q.Descriptor.Path = u.Host, u.RequestURI()
	}
	for _, header := range c.Header {
		name, value, ok := strings.Cut(header, ":")
		if !ok || !rules.IsToken(name) {
			return q, errors.New("explain: -H is not a header; such as 'X-User: ann' is")
		}
		if q.Descriptor.Headers == nil {
			q.Descriptor.Headers = make(map[string]string)
		}
		name = http.CanonicalHeaderKey(name)
		if _, twice := q.Descriptor.Headers[name]; twice {
			return q, fmt.Errorf("explain: -H has %s twice; use --http for such a request", name)
		}
		q.Descriptor.Headers[name] = strings.TrimSpace(value)
	}
	return q, nil
}

func readRequest(name string, in io.Reader) (string, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("explain: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return "", fmt.Errorf("explain: %w", err)
	}
	if len(text) > maxRequest {
		return "", fmt.Errorf("explain: %s has more than %d bytes", name, maxRequest)
	}
	return string(text), nil
}

// byFile explains by a rules file alone.
func (c explainCommand) byFile(ctx context.Context, q rest.Question, errs io.Writer) (*rest.Explanation, error) {
	cfg, problems := config.Load(c.Config, nil)
	if cfg == nil {
		return nil, server.ConfigError(problems)
	}
	defer cfg.Close()
	for _, p := range problems {
		fmt.Fprintln(errs, p.Error())
	}
	if cfg.File.RulesFrom.Store != "off" {
		fmt.Fprintln(errs, "explain: the rules of the table that rules_from names are not looked at; ask a process for them")
	}
	store := memory.New(nil)
	defer store.Close()
	limiter := limit.New(store, nil)
	defer limiter.Close()
	return rest.Explain(ctx, gate.New(limiter, &gate.Snapshot{Rules: cfg.Rules, Identity: cfg.Identity}, nil), q)
}

const (
	// explainTime bounds the asking of a process.
	explainTime = 30 * time.Second
	// maxExplanation is the longest answer that is read, in bytes.
	maxExplanation = 16 << 20
)

// byProcess asks a process.
func (c explainCommand) byProcess(ctx context.Context, q rest.Question) (*rest.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil { // strings always encode
		panic(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.API, "/")+"/api/v1/explain", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("explain: --api: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("explain: %w; is stint serve running, and --api its listen.api? --config FILE asks no process", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxExplanation))
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var problem httpanswer.Problem
		if json.Unmarshal(answer, &problem) != nil || problem.Detail == "" {
			return nil, fmt.Errorf("explain: %s answers %s; is it the API of a Stint?", c.API, resp.Status)
		}
		return nil, fmt.Errorf("explain: %s", problem.Detail)
	}
	var e rest.Explanation
	if err := json.Unmarshal(answer, &e); err != nil {
		return nil, fmt.Errorf("explain: the answer of %s cannot be read: %w", c.API, err)
	}
	return &e, nil
}

// maxOtherPaths is how many rules for other paths are shown.
const maxOtherPaths = 20

// writeExplanation writes e for people.
func writeExplanation(out io.Writer, e *rest.Explanation) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintln(w, plain(fmt.Sprintf(format, args...))) }

	line("REQUEST %s %s%s", e.Request.Method, e.Request.Host, e.Request.Path)
	if e.Request.API != e.Request.Path {
		line("  api\t%s", e.Request.API)
	}
	if e.Request.Plan != "" {
		line("  plan\t%s", e.Request.Plan)
	}
	line("CALLER")
	for _, f := range e.Identity {
		switch {
		case f.Secret:
			line("  %s\tnot shown, from %s", f.Attribute, f.Source)
		case f.Source == "":
			line("  %s\tabsent", f.Attribute)
		default:
			line("  %s\t%s, from %s", f.Attribute, f.Value, f.Source)
		}
		for _, m := range f.Missed {
			line("\tnot from %s: %s", m.Source, m.Why)
		}
	}
	if s := e.Seat; s != nil {
		writeSeat(line, s)
	}
	applies, paths := false, 0
	for i := range e.Rules {
		r := &e.Rules[i]
		switch {
		case r.Applies && !applies:
			line("RULES THAT APPLY")
		case !r.Applies && (i == 0 || e.Rules[i-1].Applies):
			line("RULES THAT DO NOT")
		}
		applies = r.Applies
		if r.Part == "path" {
			paths++
		}
		if paths <= maxOtherPaths || r.Part != "path" {
			writeRule(line, r)
		}
	}
	if more := max(0, paths-maxOtherPaths) + e.NotListed; more > 0 {
		line("  \tand %d more", more)
	}
	if e.Decision.Allowed {
		line("DECISION allowed")
	} else {
		line("DECISION refused with %d: %s", e.Decision.Status, e.Decision.Detail)
	}
	return w.Flush()
}

func writeSeat(line func(string, ...any), s *rest.ExplainedSeat) {
	if !s.Needed {
		line("SEAT none is needed, by %s", s.Route)
		return
	}
	line("SEAT %s, by %s", s.Tenant, s.Route)
	line("  plan %s\t%d at once, %d more may wait; this takes %d", s.Plan, s.AtOnce, s.Queue, s.Cost)
	if s.TimeoutMS > 0 {
		line("  time\t%v, waiting and running together", milliseconds(s.TimeoutMS))
	}
}

func writeRule(line func(string, ...any), r *rest.ExplainedRule) {
	name := r.Rule
	if r.Row != 0 {
		name += fmt.Sprintf(" (row %d)", r.Row)
	}
	if r.Shadow {
		name += " (shadow)"
	}
	if !r.Applies {
		line("  %s\t%s", name, r.Why)
		return
	}
	by := r.Key
	if r.Override != "" {
		by += ", by " + r.Override
	}
	line("  %s\tcounts %s; this costs %d", name, by, r.Cost)
	for _, why := range r.Overrides {
		line("\tnot %s", why)
	}
	for _, p := range r.Policies {
		text := fmt.Sprintf("%s: %d of %d in %v left", p.Policy, p.Remaining, p.Limit, milliseconds(p.WindowMS))
		switch {
		case !p.Allowed && r.Shadow:
			text += fmt.Sprintf(", would deny with %d for %v", r.Status, milliseconds(p.RetryAfterMS))
		case !p.Allowed && r.MaxWaitMS > 0:
			text += fmt.Sprintf(", would let it wait for up to %v, and deny with %d if %v is too long", milliseconds(r.MaxWaitMS), r.Status, milliseconds(p.RetryAfterMS))
		case !p.Allowed:
			text += fmt.Sprintf(", denies with %d for %v", r.Status, milliseconds(p.RetryAfterMS))
		case p.ResetAfterMS > 0:
			text += fmt.Sprintf(", all of it in %v", milliseconds(p.ResetAfterMS))
		}
		if p.Degraded {
			text += "; the store does not answer"
		}
		line("\t%s", text)
	}
}

func milliseconds(ms int64) rules.Duration {
	return rules.Duration(ms) * rules.Duration(time.Millisecond)
}

// plain takes out what a terminal would obey. A tab is the layout's.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
