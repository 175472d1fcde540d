package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/limit"
)

// maxRules is the most rules of a Spec.
const maxRules = 10_000

const (
	maxName  = 64
	nameHelp = "lower-case letters, digits, - and _ are allowed, 1 to 64 of them"
)

// Compile checks all of spec and returns a Set, and everything that is wrong,
// in the order of the Spec. The Set is nil if there is any problem that is not
// a warning; otherwise it goes on to use spec, which must not change any more.
func Compile(spec Spec) (*Set, []Problem) {
	c := newCompiler(spec)
	set := c.finish()
	return set, c.problems
}

// compiler collects what is wrong with a Spec while it is compiled from its
// beginning to its end.
type compiler struct {
	set      *Set
	problems []Problem
	failed   int // how many of problems are not warnings
	paths    paths
	usesAPI  bool // something depends on the attribute api
	plans    plans
	place    string            // where the rule stands that is being compiled
	names    taken             // by the rules seen
	policies taken             // by the limits seen
	same     map[string]*alike // the rules seen, by what they match at a glance
}

// newCompiler returns a compiler that has compiled spec.
func newCompiler(spec Spec) *compiler {
	c := &compiler{
		names:    taken{at: map[string]string{}},
		policies: taken{at: map[string]string{}},
		same:     map[string]*alike{},
	}
	c.paths = c.compilePaths("paths", &spec.Paths)
	c.plans = c.compilePlans(spec.Plans)
	if n := len(spec.Rules); n > maxRules {
		c.problem("rules", "%d are given; at most %d are allowed", n, maxRules)
		spec.Rules = spec.Rules[:maxRules]
	}
	c.set = &Set{plans: c.plans, paths: c.paths}
	for i := range spec.Rules {
		c.place = item("rules", i)
		c.add(c.compileRule(c.place, &spec.Rules[i]))
	}
	for i, r := range c.set.rules {
		c.compileReplaces(item("rules", i)+".replaces", r)
	}
	if spec.Isolation != nil {
		c.set.isolation = c.compileIsolation(spec.Isolation)
	}
	return c
}

// add puts a rule into the Set, behind those that are there.
func (c *compiler) add(r *Rule) {
	r.position = len(c.set.rules)
	c.set.rules = append(c.set.rules, r)
	c.set.templates.add(&r.match, int32(r.position))
}

// finish returns the Set, or nil if there is a problem in the Spec.
func (c *compiler) finish() *Set {
	if c.failed > 0 {
		return nil
	}
	c.set.templates.build(func(i int32) []condition { return c.set.rules[i].match.exact() })
	c.set.usesAPI = c.usesAPI
	return c.set
}

func (c *compiler) problem(at, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: at, Message: fmt.Sprintf(format, args...)})
	c.failed++
}

// conflict is problem for what another rule has already.
func (c *compiler) conflict(at, format string, args ...any) {
	c.problem(at, format, args...)
	c.problems[len(c.problems)-1].Conflict = true
}

func (c *compiler) warn(at, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: at, Message: fmt.Sprintf(format, args...), Warning: true})
}

// unknown reports a word that is none of allowed.
func (c *compiler) unknown(at, word string, allowed []string) {
	if len(allowed) == 0 {
		c.problem(at, "%q is unknown; there are none", word)
		return
	}
	c.problem(at, "%q is unknown; allowed: %s%s", word, enumerate(allowed), didYouMean(word, allowed))
}

// item is the path of an element.
func item(at string, i int) string { return fmt.Sprintf("%s[%d]", at, i) }

// compileRule goes through a rule in the order of its fields.
func (c *compiler) compileRule(at string, spec *RuleSpec) *Rule {
	before := c.failed
	r := &Rule{
		Name:   spec.Name,
		Cost:   spec.Cost,
		Shadow: spec.Shadow,
		Status: spec.Status,
		Spec:   spec,
	}
	named := c.checkName(at+".name", spec.Name)
	r.match = c.compileMatch(at+".match", &spec.Match)
	r.API = r.match.api()
	r.key = c.compileKey(at+".key", spec.Key)
	r.Policies = c.compileLimits(at+".limits", spec, named)
	mode := c.compileMode(at+".mode", spec.Mode)
	overshoot := c.compileMaxOvershoot(at+".max_overshoot", spec)
	c.compileCost(at+".cost", r)
	c.compileStatus(at+".status", r)
	onStoreError := c.compileOnStoreError(at+".on_store_error", spec.OnStoreError)
	for _, p := range r.Policies {
		p.Mode, p.MaxOvershoot, p.OnStoreError = mode, overshoot, onStoreError
	}
	if spec.Queue != nil {
		c.compileQueue(at+".queue", r, spec.Queue)
	}
	r.overrides = c.compileOverrides(at+".overrides", r)
	if c.failed == before {
		c.checkSame(at, r)
	}
	return r
}

// checkName reports whether a rule's name is sound.
func (c *compiler) checkName(at, name string) bool {
	first, taken := c.names.at[name]
	switch {
	case name == "":
		c.problem(at, "is missing; %s", nameHelp)
	case !isName(name):
		c.problem(at, "%q is not a name; %s", name, nameHelp)
	case taken:
		c.conflict(at, "%q is already the name of %s", name, first)
	default:
		c.names.take(name, c.place)
		return true
	}
	return false
}

func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	}) < 0
}

func (c *compiler) compileMode(at, mode string) limit.Mode {
	switch mode {
	case "", "exact":
	case "local":
		return limit.Local
	case "synced":
		return limit.Synced
	default:
		c.unknown(at, mode, []string{"exact", "local", "synced"})
	}
	return limit.Exact
}

// compileMaxOvershoot returns what a rule may pass its limits by; 0 is no bound.
func (c *compiler) compileMaxOvershoot(at string, spec *RuleSpec) int64 {
	if spec.MaxOvershoot == nil {
		return 0
	}
	n := *spec.MaxOvershoot
	switch spec.Mode {
	case "", "exact", "local":
		c.problem(at, "%d is given, and only a synced rule goes above its limits; leave it out, or use mode: synced", n)
	default:
		if n < 1 {
			c.problem(at, "%d is out of bounds; 1 or more is allowed, and mode: exact for none", n)
		}
	}
	return n
}

func (c *compiler) compileOnStoreError(at, what string) limit.OnStoreError {
	switch what {
	case "", "local":
	case "allow":
		return limit.FailAllow
	case "deny":
		return limit.FailError
	default:
		c.unknown(at, what, []string{"local", "allow", "deny"})
	}
	return limit.FailLocal
}

func (c *compiler) compileCost(at string, r *Rule) {
	if r.Cost == 0 {
		r.Cost = 1
	}
	if r.Cost < 0 {
		c.problem(at, "%d is negative; 1 or more is allowed", r.Cost)
	}
	for i, p := range r.Policies {
		if neverAdmits(p, r.Cost) {
			c.problem(at, "%d exceeds the most that limits[%d] ever admits at once, %d; lower the cost or raise that limit", r.Cost, i, p.Capacity())
		}
	}
}

func (c *compiler) compileStatus(at string, r *Rule) {
	switch r.Status {
	case 0:
		r.Status = 429
	case 429, 503:
	default:
		c.problem(at, "%d is not allowed; 429 and 503 are", r.Status)
	}
}

func (c *compiler) compileQueue(at string, r *Rule, spec *QueueSpec) {
	const longest, most = Duration(time.Hour), 10_000
	if spec.MaxWait <= 0 || spec.MaxWait > longest {
		c.problem(at+".max_wait", "%v is out of bounds; more than 0s, up to 1h, is allowed", spec.MaxWait)
	}
	if spec.MaxQueue < 1 || spec.MaxQueue > most {
		c.problem(at+".max_queue", "%d is out of bounds; 1 to %d is allowed", spec.MaxQueue, most)
	}
	r.MaxWait, r.MaxQueue = time.Duration(spec.MaxWait), spec.MaxQueue
}

// compileReplaces finds the rules that r replaces, among those that have been added.
func (c *compiler) compileReplaces(at string, r *Rule) {
	for i, name := range r.Spec.Replaces {
		position := slices.IndexFunc(c.set.rules, func(o *Rule) bool { return o.Name == name })
		switch {
		case name == r.Name:
			c.problem(item(at, i), "%q is this rule itself; leave it out", name)
		case position < 0:
			c.unknown(item(at, i), name, slices.Sorted(maps.Keys(c.names.at)))
		case slices.Contains(r.Spec.Replaces[:i], name):
			c.problem(item(at, i), "%q is there already; leave one out", name)
		case !r.Shadow:
			r.Replaces = append(r.Replaces, c.set.rules[position])
		}
	}
}

// alike are rules that match the same requests, as far as can be told at a glance.
type alike struct {
	first      *Rule             // until there is a second one
	signatures map[string]string // to the names of the rules
}

// checkSame finds a rule that could be a limit of an earlier one: it differs
// from it in nothing but name and limits.
func (c *compiler) checkSame(at string, r *Rule) {
	glance := r.match.glance()
	like := c.same[glance]
	if like == nil {
		c.same[glance] = &alike{first: r}
		return
	}
	if like.signatures == nil {
		like.signatures = map[string]string{like.first.signature(): like.first.Name}
	}
	signature := r.signature()
	if first, ok := like.signatures[signature]; ok {
		c.conflict(at, "matches and counts exactly what rule %q does; put its limits into one rule", first)
		return
	}
	like.signatures[signature] = r.Name
}

// glance returns a text that is the same for any two matchers that are the same.
func (m *matcher) glance() string {
	size := len(m.host.name)
	for _, s := range m.template {
		size += 1 + len(s.text)
	}
	for _, condition := range m.attributes {
		size += 1 + len(condition.name) + len(condition.text)
	}
	text := append(make([]byte, 0, size), m.host.name...)
	for _, s := range m.template {
		text = append(append(text, '/'), s.text...)
	}
	for _, condition := range m.attributes {
		text = append(append(append(text, '='), condition.name...), condition.text...)
	}
	return string(text)
}

// signature returns all of a rule but its name and its limits.
func (r *Rule) signature() string {
	var key, overrides []string
	for _, part := range r.key {
		key = append(key, strings.Join(part, "|"))
	}
	slices.Sort(key)
	for i, o := range r.overrides.all {
		overrides = append(overrides, fmt.Sprintf("%q %q %v", o.when, o.until, r.Spec.Overrides[i].Exempt))
	}
	m := r.match
	return fmt.Sprintf("%q %q %q %q %q %q %v %v %v %v %v %v %v %v %q %q",
		m.methods, m.host.name, m.template, m.headers, m.attributes, key,
		r.Cost, r.Shadow, r.Status, r.MaxWait, r.MaxQueue,
		r.Policies[0].Mode, r.Policies[0].MaxOvershoot, r.Policies[0].OnStoreError, overrides, r.Spec.Replaces)
}
