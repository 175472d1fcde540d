package limittest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// defaultStart is a multiple of every window that divides a day.
var defaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maxOffset bounds the instants of a script.
const maxOffset = 100 * algo.Year

// Parse reads a script. name is what its errors call it; each begins with
// name:line and says what is allowed there.
func Parse(name, text string) (*Script, error) {
	p := parser{
		script:   &Script{Name: name, Start: algo.Ticks(defaultStart.UnixMicro())},
		policies: map[string]*limit.Policy{},
	}
	for line := range strings.Lines(text) {
		p.line++
		if err := p.parse(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.line, err)
		}
	}
	if len(p.script.Steps) == 0 {
		return nil, fmt.Errorf("%s:%d: nothing is done; at least one line with at is needed", name, max(1, p.line))
	}
	return p.script, nil
}

type parser struct {
	script   *Script
	line     int
	started  bool
	policies map[string]*limit.Policy // as they are by now
	latest   *limit.Policy
}

func (p *parser) parse(line string) error {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "start":
		return p.start(words[1:])
	case "policy":
		return p.policy(words[1:])
	case "at":
		return p.step(words[1:])
	}
	return fmt.Errorf("%q begins no line; start, policy, at and # do", words[0])
}

func (p *parser) start(words []string) error {
	if p.started || p.latest != nil {
		return fmt.Errorf("start comes too late; it is allowed once, before everything else")
	}
	if len(words) != 1 {
		return fmt.Errorf("start has %d words; one instant is allowed, such as 2026-01-01T00:00:00Z", len(words))
	}
	at, err := time.Parse(time.RFC3339, words[0])
	if err != nil || at.Year() < 1970 || at.Year() > 2255 {
		return fmt.Errorf("start: %q is no instant from 1970 to 2255, such as 2026-01-01T00:00:00Z", words[0])
	}
	p.script.Start, p.started = algo.Ticks(at.UnixMicro()), true
	return nil
}

func (p *parser) policy(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("policy needs a name and an algorithm, such as: policy login gcra quota=5 window=1m")
	}
	next := &limit.Policy{Name: words[0], Algorithm: algo.ByName(words[1])}
	if next.Algorithm == nil {
		return fmt.Errorf("algorithm: %q is unknown; %v are allowed", words[1], algo.All)
	}
	err := fields(words[2:], "quota, window and burst", map[string]func(string) error{
		"quota": number(&next.Quota),
		"burst": number(&next.Burst),
		"window": func(text string) error {
			span, err := parseSpan(text)
			next.Window = time.Duration(min(span, 2*algo.MaxWindow)) * time.Microsecond
			return err
		},
	})
	if err != nil {
		return err
	}
	if err := next.Check(); err != nil {
		return fmt.Errorf("policy %s: %w", next.Name, err)
	}
	p.policies[next.Name], p.latest = next, next
	return nil
}

// step parses what follows "at": OFFSET VERB KEY [COST] [under POLICY] [-> ...].
func (p *parser) step(words []string) error {
	words, want, arrow := cutWords(words, "->")
	if len(words) < 3 {
		return fmt.Errorf("at needs an offset, a verb and a key, such as: at 1s take alice 1 -> allow")
	}
	offset, err := parseSpan(words[0])
	if err != nil || offset > maxOffset {
		return fmt.Errorf("at: %q is no offset from 0s to %v, such as 1m30s", words[0], maxOffset)
	}
	s := Step{Line: p.line, At: p.script.Start + offset, Verb: Verb(words[1]), Key: words[2]}
	words, under, named := cutWords(words[3:], "under")
	if s.Policy, err = p.under(under, named); err != nil {
		return err
	}
	switch s.Verb {
	case Take, Peek, Refund:
		if s.Cost, err = p.cost(s, words); err != nil {
			return err
		}
		err = s.Want.decision(want)
	case Reset, Used:
		if len(words) > 0 {
			return fmt.Errorf("%s: %q is too much; only a key is allowed", s.Verb, words[0])
		}
		if s.Verb == Used {
			err = s.Want.used(want)
		} else if arrow {
			err = fmt.Errorf("reset: nothing is allowed after the key, not even ->")
		}
	default:
		return fmt.Errorf("%q is no verb; take, peek, refund, reset and used are allowed", s.Verb)
	}
	if err == nil && len(p.script.Steps) == maxSteps {
		err = fmt.Errorf("more than %d lines with at; split the script", maxSteps)
	}
	p.script.Steps = append(p.script.Steps, s)
	return err
}

const maxSteps = 10_000

// under returns the policy that a line is under.
func (p *parser) under(words []string, named bool) (*limit.Policy, error) {
	switch {
	case p.latest == nil:
		return nil, fmt.Errorf("no policy has been given yet; a line with policy must come first")
	case !named && len(p.policies) > 1:
		return nil, fmt.Errorf("under which policy? There are %d; add under and a name", len(p.policies))
	case !named:
		return p.latest, nil
	case len(words) != 1 || p.policies[words[0]] == nil:
		return nil, fmt.Errorf("under: %q is no policy that has been given", strings.Join(words, " "))
	}
	return p.policies[words[0]], nil
}

func (p *parser) cost(s Step, words []string) (cost int64, err error) {
	if len(words) != 1 {
		return 0, fmt.Errorf("%s has %d words after its key; a cost is allowed, and under and a policy", s.Verb, len(words))
	}
	if err := number(&cost)(words[0]); err != nil {
		return 0, fmt.Errorf("cost: %w", err)
	}
	if most := s.Policy.Capacity(); s.Verb != Refund && s.Policy.Quota > 0 && cost > most {
		return 0, fmt.Errorf("cost: %d can never be admitted under %s; at most %d is allowed", cost, s.Policy.Name, most)
	}
	return cost, nil
}

// decision parses what is expected of a decision, after the arrow.
func (w *Want) decision(words []string) error {
	if len(words) == 0 || words[0] != "allow" && words[0] != "deny" {
		return fmt.Errorf("-> must be followed by allow or deny")
	}
	w.Allowed = new(words[0] == "allow")
	return fields(words[1:], "remaining, retry and reset", map[string]func(string) error{
		"remaining": func(text string) error {
			w.Remaining = new(int64)
			return number(w.Remaining)(text)
		},
		"retry": duration(&w.Retry),
		"reset": duration(&w.Reset),
	})
}

func (w *Want) used(words []string) error {
	if len(words) != 1 {
		return fmt.Errorf("used: -> must be followed by one number")
	}
	units, err := strconv.ParseFloat(words[0], 64)
	if err != nil || !(units >= 0) || math.IsInf(units, 0) {
		return fmt.Errorf("used: %q is no number of units, such as 10.25", words[0])
	}
	w.Used = &units
	return nil
}

// cutWords cuts words at the first that is sep.
func cutWords(words []string, sep string) (before, after []string, found bool) {
	for i, w := range words {
		if w == sep {
			return words[:i], words[i+1:], true
		}
	}
	return words, nil, false
}

// fields parses words of the form name=value, each name at most once.
func fields(words []string, allowed string, parse map[string]func(string) error) error {
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || parse[name] == nil {
			return fmt.Errorf("%q is not allowed here; %s are, each once and as name=value", w, allowed)
		}
		if err := parse[name](value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		delete(parse, name)
	}
	return nil
}

func number(to *int64) func(string) error {
	return func(text string) (err error) {
		*to, err = strconv.ParseInt(text, 10, 64)
		if err != nil || *to < 0 {
			return fmt.Errorf("%q is no whole number from 0 to %d", text, int64(math.MaxInt64))
		}
		return nil
	}
}

func duration(to **time.Duration) func(string) error {
	return func(text string) error {
		span, err := parseSpan(text)
		if err == nil && span > maxOffset {
			err = fmt.Errorf("%q is too long; at most %v is allowed", text, maxOffset)
		}
		*to = new(time.Duration(span) * time.Microsecond)
		return err
	}
}
