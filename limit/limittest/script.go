package limittest

import (
	"embed"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Script is a sequence of spends, each with the instant at which it is made
// and the decision that it must get. It is written like this:
//
//	# comment
//	start 2026-01-01T00:00:00Z
//	policy login gcra quota=5 window=1m burst=5
//	at 0s  take alice 5   -> allow remaining=0 reset=1m
//	at 1s  take alice 1   -> deny retry=11s
//	at 1s  used alice     -> 4.916666666666667
//	at 2s  refund alice 2 -> allow
//	at 3s  peek alice 3 under login -> deny
//	at 4s  reset alice
//
// Instants are offsets from start, which may be left out and is then the one
// above; they may go back. Spans have the units of a rules file: d, h, m, s,
// ms, us. What is not said of a decision is not checked. A policy that is given
// again replaces the one of that name from there on, and where several have
// been named, a line says which it is under.
type Script struct {
	// Name is the name of the file, in errors.
	Name string
	// Start is what the instants of the text are offsets from.
	Start algo.Ticks
	// Steps are in the order of the text.
	Steps []Step
}

// Step is one line of a Script that does something.
type Step struct {
	Line   int
	At     algo.Ticks // since the epoch
	Verb   Verb
	Key    string
	Cost   int64 // 0 for Reset and Used
	Policy *limit.Policy
	Want   Want
}

// Verb is what a Step does.
type Verb string

// The verbs of a Script.
const (
	Take   Verb = "take"
	Peek   Verb = "peek"
	Refund Verb = "refund"
	Reset  Verb = "reset"
	Used   Verb = "used"
)

// Want is what a Step expects. What is nil is not checked.
type Want struct {
	Allowed   *bool
	Remaining *int64
	Retry     *time.Duration
	Reset     *time.Duration
	Used      *float64
}

//go:embed testdata/decisions/*.txt
var texts embed.FS

// Scripts returns the decision scripts that hold at every height.
func Scripts() []*Script {
	const folder = "testdata/decisions"
	files, err := texts.ReadDir(folder)
	if err != nil {
		panic(err) // it is part of this binary
	}
	scripts := make([]*Script, len(files))
	for i, f := range files {
		text, err := texts.ReadFile(path.Join(folder, f.Name()))
		if err == nil {
			scripts[i], err = Parse(f.Name(), string(text))
		}
		if err != nil {
			panic(err)
		}
	}
	return scripts
}

// Run plays the script to who, from the first step to the last, and reports
// every decision that is not the one expected as an error of t.
func (s *Script) Run(t testing.TB, who Subject) {
	t.Helper()
	for _, step := range s.Steps {
		who.At(step.At)
		if problem := step.run(who); problem != "" {
			t.Errorf("%s:%d: at %v %s: %s", s.Name, step.Line, step.At-s.Start, step, problem)
		}
	}
}

// GoesBack reports whether the script's clock is ever stepped back.
func (s *Script) GoesBack() bool {
	now := s.Start
	for _, step := range s.Steps {
		if step.At < now {
			return true
		}
		now = step.At
	}
	return false
}

func (s Step) String() string {
	switch s.Verb {
	case Reset, Used:
		return fmt.Sprintf("%s %s under %s", s.Verb, s.Key, s.Policy.Name)
	}
	return fmt.Sprintf("%s %s %d under %s", s.Verb, s.Key, s.Cost, s.Policy.Name)
}

// run returns what is wrong with who's answer to s.
func (s Step) run(who Subject) (problem string) {
	var d limit.Decision
	var err error
	switch s.Verb {
	case Take:
		d, err = who.Take(s.Policy, s.Key, s.Cost)
	case Peek:
		d, err = who.Peek(s.Policy, s.Key, s.Cost)
	case Refund:
		d, err = who.Refund(s.Policy, s.Key, s.Cost)
	case Reset:
		err = who.Reset(s.Policy, s.Key)
	case Used:
		return s.gauge(who)
	}
	if err != nil {
		return "error: " + err.Error()
	}
	grain := time.Duration(1)
	if c, ok := who.(Coarse); ok {
		grain = c.Grain()
	}
	return s.Want.differs(d, grain)
}

func (s Step) gauge(who Subject) string {
	g, ok := who.(Gauge)
	if !ok {
		return ""
	}
	if used := g.Used(s.Policy, s.Key); used != *s.Want.Used {
		return fmt.Sprintf("got %v, want %v", used, *s.Want.Used)
	}
	return ""
}

// differs returns what in d is not as w wants it, spans rounded up to grain.
func (w Want) differs(d limit.Decision, grain time.Duration) (problem string) {
	if w.Allowed != nil && d.Allowed != *w.Allowed {
		return fmt.Sprintf("got %+v, want %s", d, word(*w.Allowed))
	}
	if w.Remaining != nil && d.Remaining != *w.Remaining {
		problem += fmt.Sprintf("got remaining=%d, want %d; ", d.Remaining, *w.Remaining)
	}
	if w.Retry != nil && d.RetryAfter != roundUp(*w.Retry, grain) {
		problem += fmt.Sprintf("got retry=%v, want %v; ", d.RetryAfter, *w.Retry)
	}
	if w.Reset != nil && d.ResetAfter != roundUp(*w.Reset, grain) {
		problem += fmt.Sprintf("got reset=%v, want %v; ", d.ResetAfter, *w.Reset)
	}
	return problem
}

func roundUp(d, grain time.Duration) time.Duration {
	if rest := d % grain; rest > 0 {
		d += grain - rest
	}
	return d
}

func word(allowed bool) string {
	if allowed {
		return "allow"
	}
	return "deny"
}
