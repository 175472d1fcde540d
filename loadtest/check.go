package loadtest

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
)

// Bounds of a scenario.
const (
	maxRequests    = 5_000_000
	maxInstances   = 32
	maxConnections = 1000
	maxPhases      = 100
	maxRate        = 100_000
	maxKeys        = 1_000_000
	maxCompress    = 1000
)

// fill sets what the file leaves open.
func (s *Scenario) fill() {
	s.Compress = cmp.Or(s.Compress, 1)
	s.Limit.Algorithm = cmp.Or(s.Limit.Algorithm, algo.GCRA.Name)
	i, l := &s.Instances, &s.Load
	i.Count = cmp.Or(i.Count, 1)
	i.Target = cmp.Or(i.Target, "http://${proxy}")
	if i.Config != "" {
		i.Ready = cmp.Or(i.Ready, "http://${api}/readyz")
		i.Metrics = cmp.Or(i.Metrics, "http://${api}/metrics")
	}
	l.Method = cmp.Or(l.Method, http.MethodGet)
	l.Connections = cmp.Or(l.Connections, 32)
	l.Timeout = cmp.Or(l.Timeout, duration(10*time.Second))
	if l.Statuses == nil {
		l.Statuses = []whole{http.StatusOK, http.StatusTooManyRequests}
	}
}

// check reports what is wrong with s.
func (s *Scenario) check(p *problems) {
	if s.Name == "" {
		p.at("name", "is required; it heads the report")
	}
	if !(s.Compress >= 1 && s.Compress <= maxCompress) {
		p.at("compress", "%v is out of bounds; 1 to %d is allowed", s.Compress, maxCompress)
		return // all times depend on it
	}
	s.checkLoad(p)
	s.checkPhases(p)
	if s.checkLimit(p) {
		s.checkInstances(p)
		s.checkChecks(p)
	}
}

func (s *Scenario) checkLimit(p *problems) bool {
	known := len(p.list)
	if algo.ByName(s.Limit.Algorithm) == nil {
		var names []string
		for _, a := range algo.All {
			names = append(names, a.Name)
		}
		p.at("limit.algorithm", "%q is not known; %s is allowed", s.Limit.Algorithm, strings.Join(names, ", "))
	} else if err := s.policy().Check(); err != nil {
		field, what, _ := strings.Cut(err.Error(), ": ")
		if field == "window" && s.Compress != 1 {
			what += fmt.Sprintf(", after compress %v", s.Compress)
		}
		p.at("limit."+field, "%s", what)
	} else if s.Limit.Quota == 0 {
		p.at("limit.quota", "0 admits nothing; 1 or more is allowed")
	}
	return len(p.list) == known
}

func (s *Scenario) checkLoad(p *problems) {
	l := &s.Load
	if !rules.IsToken(l.Method) {
		p.at("load.method", "%q is not a method", l.Method)
	}
	if !strings.HasPrefix(l.Path, "/") {
		p.at("load.path", "%q does not begin with /; a path such as /items/${key} is allowed", l.Path)
	}
	texts := map[string]string{"path": l.Path, "body": l.Body}
	for name, value := range l.Headers {
		texts["headers."+name] = value
		if !rules.IsToken(name) {
			p.at("load.headers", "%q is not a header", name)
		}
	}
	for name, text := range texts {
		if err := onlyPlaceholders(text, "key"); err != nil {
			p.at("load."+name, "%v", err)
		}
	}
	if l.Connections < 1 || l.Connections > maxConnections {
		p.at("load.connections", "%d is out of bounds; 1 to %d is allowed", l.Connections, maxConnections)
	}
	if l.Timeout < duration(time.Millisecond) || l.Timeout > duration(time.Minute) {
		p.at("load.timeout", "%v is out of bounds; 1ms to 1m is allowed", l.Timeout)
	}
	if len(l.Statuses) == 0 {
		p.at("load.statuses", "is empty; leave it out for 200 and 429")
	}
	for i, status := range l.Statuses {
		if status < 200 || status > 499 {
			p.at(fmt.Sprintf("load.statuses[%d]", i), "%d is out of bounds; 200 to 499 is allowed", status)
		}
	}
	s.checkKeys(p)
}

// plainKey is a key that means the same in a path, a header and a JSON text.
var plainKey = regexp.MustCompile(`^[0-9A-Za-z._~@-]{1,64}$`)

func (s *Scenario) checkKeys(p *problems) {
	k := &s.Load.Keys
	switch {
	case (len(k.List) > 0) == (k.Count != 0):
		p.at("load.keys", "needs either list or count, such as list: [alex]")
	case k.Count < 0 || k.Count > maxKeys:
		p.at("load.keys.count", "%d is out of bounds; 1 to %d is allowed", k.Count, maxKeys)
	case k.Zipf != 0 && (k.Count == 0 || !(k.Zipf > 1 && k.Zipf <= 10)):
		p.at("load.keys.zipf", "%v cannot be; with count, above 1 to 10 is allowed", k.Zipf)
	}
	for i, key := range k.List {
		if !plainKey.MatchString(key) {
			p.at(fmt.Sprintf("load.keys.list[%d]", i), "%q is not a key; 1 to 64 letters, digits, and . _ ~ @ - are allowed", key)
		}
	}
}

func (s *Scenario) checkPhases(p *problems) {
	phases := s.Load.Phases
	if len(phases) == 0 || len(phases) > maxPhases {
		p.at("load.phases", "has %d phases; 1 to %d are allowed", len(phases), maxPhases)
		return
	}
	known := len(p.list)
	for i := range phases {
		phases[i].check(p, fmt.Sprintf("load.phases[%d]", i))
	}
	if len(p.list) > known {
		return
	}
	if total := expected(s.segments()) * float64(max(1, s.Instances.Count)); !(total >= 1 && total <= maxRequests) {
		p.at("load.phases", "make %.0f requests on all instances; 1 to %d are allowed", total, maxRequests)
	}
}

func (h *Phase) check(p *problems, at string) {
	constant, moving := h.Rate != nil, h.From != nil && h.To != nil
	if constant == moving || constant && (h.From != nil || h.To != nil || h.Steps != 0) {
		p.at(at, "needs either rate, or from and to, and then steps if it is a staircase")
		return
	}
	for name, rate := range map[string]*float64{"rate": h.Rate, "from": h.From, "to": h.To} {
		if rate != nil && !(*rate >= 0 && *rate <= maxRate) {
			p.at(at+"."+name, "%v is out of bounds; 0 to %d requests a second are allowed", *rate, maxRate)
		}
	}
	if h.Steps < 0 || h.Steps == 1 || h.Steps > 1000 {
		p.at(at+".steps", "%d is out of bounds; 2 to 1000 is allowed", h.Steps)
	}
	if h.For < duration(time.Millisecond) || h.For > duration(24*time.Hour) {
		p.at(at+".for", "%v is out of bounds; 1ms to 1d is allowed", h.For)
	}
}

func (s *Scenario) checkInstances(p *problems) {
	i := &s.Instances
	if i.Count < 1 || i.Count > maxInstances {
		p.at("instances.count", "%d is out of bounds; 1 to %d is allowed", i.Count, maxInstances)
	}
	if (i.Config == "") == (len(i.Command) == 0) {
		p.at("instances", "needs either config, for stint serve, or command")
		return
	}
	if i.Ready == "" {
		p.at("instances.ready", "is required with command: a URL that answers 200 as soon as requests can be sent")
	}
	sample := s.samples()
	for name, text := range map[string]string{"ready": i.Ready, "target": i.Target, "metrics": i.Metrics, "config": i.Config, "command": strings.Join(i.Command, " ")} {
		if _, err := expand(text, sample); err != nil {
			p.at("instances."+name, "%v", err)
		}
	}
	if i.Config != "" && len(p.list) == 0 {
		s.checkConfig(p, sample)
	}
}

// checkConfig checks what stint serve is configured with, and that one of its
// rules has the limit that is promised.
func (s *Scenario) checkConfig(p *problems, sample map[string]string) {
	text, _ := expand(s.Instances.Config, sample) // checked before
	file, found := config.Parse("config", []byte(text))
	at := child(child(p.root, "instances"), "config")
	for _, problem := range found {
		if !problem.Warning {
			p.add(at.Line+problem.Line, 1, "instances.config", "%s: %s", problem.Path, problem.Message)
		}
	}
	if file == nil {
		return
	}
	set, _ := rules.Compile(file.Spec) // Parse has found it good
	has := slices.ContainsFunc(set.Rules(), func(r *rules.Rule) bool {
		return slices.ContainsFunc(r.Policies, s.promises)
	})
	if !has {
		p.at("instances.config", "no rule has the limit that is promised; write it as quota: ${quota}, window: ${window}")
	}
}

var percentile = regexp.MustCompile(`^p[0-9]{1,2}(\.[0-9]+)?$`)

func (s *Scenario) checkChecks(p *problems) {
	c := &s.Checks
	if c.Metrics && s.Instances.Metrics == "" {
		p.at("checks.metrics", "needs instances.metrics, a URL")
	}
	if c.UpdatesPerRequest != nil && s.Instances.Metrics == "" {
		p.at("checks.updates_per_request", "needs instances.metrics, a URL")
	}
	l := s.policy().Limit()
	if c.Spacing && (s.Instances.Config == "" || s.Limit.Algorithm != algo.GCRA.Name || l.Burst != 1) {
		p.at("checks.spacing", "needs instances.config, and a limit of algorithm gcra that admits one at a time (burst: 1)")
	}
	for name, most := range map[string]*float64{"updates_per_request": c.UpdatesPerRequest, "transactions_per_request": c.TransactionsPerRequest} {
		if most != nil && !(*most >= 0 && *most <= 1000) {
			p.at("checks."+name, "%v is out of bounds; 0 to 1000 is allowed", *most)
		}
	}
	for name := range c.Latency {
		if !percentile.MatchString(name) {
			p.at("checks.latency."+name, "%q is not a percentile; p50, p99 or p99.9 is allowed", name)
		}
	}
}
