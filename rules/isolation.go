package rules

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// IsolationSpec keeps tenants from slowing each other: each has its share of the
// seats, which are what requests hold while they run.
type IsolationSpec struct {
	Seats      int                     `yaml:"seats" required:"true" doc:"How many seats this process has, 1 to 65536: what the requests that run at once cost together, at most."`
	Tenant     string                  `yaml:"tenant" required:"true" doc:"The attribute that tells tenants apart; a|b means a, or b where a is missing. Requests without it are one tenant together."`
	Plans      map[string]SeatPlanSpec `yaml:"plans" doc:"What the tenants of a plan get, by the name of the plan. Those of no plan, or of one that is not here, have the plan default. Default: default: {}."`
	Routes     []RouteSpec             `yaml:"routes" doc:"What is different for some requests. Of those that match, the one with the most particular path applies; of equal ones, the first."`
	Status     int                     `yaml:"status" enum:"429,503" doc:"HTTP status of a refusal. Default 503."`
	Guarantee  *int                    `yaml:"guarantee" doc:"The dial from fair to strict, in per cent, 0 to 99: how likely the others find a seat free at once when a tenant asks for more than its share. 0 holds no seat idle. Default 90."`
	MaxWaiting *int                    `yaml:"max_waiting" doc:"How many requests may wait, of all tenants together, 1 to 1048576. Default 16384."`
	LeaseTime  *Duration               `yaml:"lease_time" doc:"How long what this process holds of shared seats is its own after its last word to the store, 1s to 5m: so late others have it when the process has died. Default 10s."`
	MinSeats   *int                    `yaml:"min_seats" doc:"Let the number of seats shrink down to this, 1 to seats, while requests take longer than they use to, and grow again. Default: seats, which is never."`
	Canary     *bool                   `yaml:"canary" doc:"Whether a canary asks for a seat four times a second, without taking it, to measure how long a well-behaved tenant would wait. Default true."`
}

// SeatPlanSpec is what each tenant of a plan gets.
type SeatPlanSpec struct {
	Preset       string    `yaml:"preset" enum:"single" doc:"single: one seat, a queue of 50, and 60s for waiting and running together. What else is given here takes the place of that."`
	Weight       *int      `yaml:"weight" doc:"The tenant's share against that of others, 1 to 1000. Default 1."`
	MaxSeats     *int      `yaml:"max_seats" doc:"The most seats that it holds at once, 1 to seats. Default: seats."`
	Shared       bool      `yaml:"shared" doc:"Whether max_seats, then 1 to 65536, counts in all processes together that have the same store. Default false: in each."`
	Queue        *int      `yaml:"queue" doc:"How many of its requests may wait, 0 to 65536; with 0, what cannot start at once is refused. Default 100."`
	QueueTimeout *Duration `yaml:"queue_timeout" doc:"The longest that one waits, 1ms to 1d. Default 10s."`
	Timeout      *Duration `yaml:"timeout" doc:"The longest that one may take, waiting and running together, 1ms to 1d; the caller is then answered, and the seat is free when the request has really ended. Default: any time."`
	Target       *Duration `yaml:"target" doc:"Refuse what has waited for long instead of starting it, while the shortest wait in the tenant's queue stays above this for 100ms (CoDel), 1ms to 1d. Default: off."`
}

// RouteSpec is what is different for some requests.
type RouteSpec struct {
	Match    MatchSpec `yaml:"match" required:"true" doc:"Which requests it is for. Every part given must match."`
	Enabled  *bool     `yaml:"enabled" doc:"Whether they need seats at all. Default true."`
	Cost     *int      `yaml:"cost" doc:"How many seats one takes, 1 to seats. Default 1."`
	Timeout  *Duration `yaml:"timeout" doc:"In place of the plan's, 1ms to 1d."`
	Priority string    `yaml:"priority" enum:"low,normal,high" doc:"Which of its own requests a tenant's queue starts first. Default normal."`
}

// defaultSeatPlan is the plan of tenants that have none of IsolationSpec.Plans.
const defaultSeatPlan = "default"

// Isolation is a compiled IsolationSpec. Its fields are for reading only, and it is
// safe for simultaneous use.
type Isolation struct {
	// Config is what a room for the seats is made with.
	Config fair.Config
	// Status is the HTTP status of a refusal, 429 or 503.
	Status int
	// Canary says that the isolation is to be measured.
	Canary bool

	tenant    keyPart
	routes    []route // the most particular first
	templates templates
	set       *Set
}

// route is a compiled RouteSpec.
type route struct {
	position int // in the Spec
	match    matcher
	enabled  bool
	cost     int
	timeout  time.Duration
	priority fair.Priority
}

// Claim is what a request needs.
type Claim struct {
	// Tenant is a key such as a Match's; DescribeKey writes it for people.
	Tenant string
	// Plan is one of Config.Plans.
	Plan string
	// Cost is how many seats it takes.
	Cost int
	// Timeout bounds waiting and running together; 0 is any time.
	Timeout  time.Duration
	Priority fair.Priority
}

// Claim returns what r needs; ok is false if that is no seat at all. It allocates the
// Tenant, and a copy of a path or host that is not in normal form.
func (i *Isolation) Claim(r Request) (c Claim, ok bool) {
	caller := i.set.caller(r)
	c, _, ok = i.claim(&caller)
	return c, ok
}

// Room returns how many seats whoever has the claim may hold at once, and how many of
// its requests may wait.
func (i *Isolation) Room(c Claim) (seats, queue int) {
	plan := i.Config.Plans[c.Plan]
	return cmp.Or(plan.MaxSeats, i.Config.Seats), plan.Queue
}

// claim returns what a caller needs, and the place in the Spec of the route that
// says so, -1 if none does.
func (i *Isolation) claim(caller *attributes) (c Claim, from int, ok bool) {
	nearest := len(i.routes)
	from = -1
	i.templates.visit(caller, func(n int32) {
		if int(n) >= nearest {
			return
		}
		own := *caller
		own.variables = i.routes[n].match.variables
		if i.routes[n].match.test(&own) == (mismatch{}) {
			nearest = int(n)
		}
	})
	c.Cost = 1
	if nearest < len(i.routes) {
		route := &i.routes[nearest]
		from = route.position
		if !route.enabled {
			return Claim{}, from, false
		}
		c.Cost, c.Timeout, c.Priority = route.cost, route.timeout, route.priority
	}
	c.Plan, _ = caller.plan()
	plan, known := i.Config.Plans[c.Plan]
	if !known {
		c.Plan = defaultSeatPlan
		plan = i.Config.Plans[defaultSeatPlan]
	}
	if c.Timeout == 0 {
		c.Timeout = plan.Timeout
	}
	c.Tenant = makeKey([]keyPart{i.tenant}, caller)
	return c, from, true
}

// compileIsolation checks who gets how many seats.
func (c *compiler) compileIsolation(spec *IsolationSpec) *Isolation {
	const at = "isolation"
	before := c.failed
	i := &Isolation{set: c.set, Status: spec.Status, Canary: spec.Canary == nil || *spec.Canary}
	if spec.Seats < 1 || spec.Seats > fair.MaxSeats {
		c.problem(at+".seats", "%d is out of bounds; 1 to %d is allowed", spec.Seats, fair.MaxSeats)
	}
	i.tenant = c.compileKeyPart(at+".tenant", spec.Tenant)
	switch i.Status {
	case 0:
		i.Status = 503
	case 429, 503:
	default:
		c.problem(at+".status", "%d is not allowed; 429 and 503 are", i.Status)
	}
	guarantee := 90
	c.compileNumber(at+".guarantee", &guarantee, spec.Guarantee, 0, 99)
	i.Config = fair.Config{Seats: spec.Seats, Default: defaultSeatPlan, Guarantee: float64(guarantee) / 100, Plans: make(map[string]fair.Plan)}
	c.compileNumber(at+".max_waiting", &i.Config.MaxWaiting, spec.MaxWaiting, 1, 1<<20)
	if spec.LeaseTime != nil {
		i.Config.LeaseTime = time.Duration(*spec.LeaseTime)
		if *spec.LeaseTime < Duration(time.Second) || *spec.LeaseTime > Duration(5*time.Minute) {
			c.problem(at+".lease_time", "%v is out of bounds; %v to %v is allowed", *spec.LeaseTime, Duration(time.Second), Duration(5*time.Minute))
		}
	}
	if spec.MinSeats != nil {
		i.Config.Adaptive = new(fair.Adaptive)
		c.compileNumber(at+".min_seats", &i.Config.Adaptive.Min, spec.MinSeats, 1, spec.Seats)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Plans)) {
		i.Config.Plans[name] = c.compileSeatPlan(at+".plans."+name, spec.Plans[name], spec.Seats)
		if _, known := slices.BinarySearch(c.plans.names, name); !known && name != defaultSeatPlan {
			c.warn(at+".plans."+name, "plans has no %q; only requests whose attribute plan is %q get it", name, name)
		}
	}
	if _, given := spec.Plans[defaultSeatPlan]; !given {
		i.Config.Plans[defaultSeatPlan] = c.compileSeatPlan(at+".plans", SeatPlanSpec{}, spec.Seats)
	}
	c.compileRoutes(at+".routes", i, spec)
	if err := i.Config.Check(); err != nil && c.failed == before {
		c.problem(at, "%v", err) // all that it checks has been, but for what it will check one day
	}
	return i
}

func (c *compiler) compileSeatPlan(at string, spec SeatPlanSpec, seats int) fair.Plan {
	p := fair.Plan{Weight: 1, Queue: 100, QueueTimeout: 10 * time.Second}
	switch spec.Preset {
	case "":
	case "single":
		p = fair.Plan{Weight: 1, MaxSeats: 1, Queue: 50, QueueTimeout: time.Minute, Timeout: time.Minute}
	default:
		c.unknown(at+".preset", spec.Preset, []string{"single"})
	}
	c.compileNumber(at+".weight", &p.Weight, spec.Weight, 1, fair.MaxWeight)
	if p.Shared = spec.Shared; p.Shared {
		seats = fair.MaxSeats
	}
	c.compileNumber(at+".max_seats", &p.MaxSeats, spec.MaxSeats, 1, seats)
	if p.Shared && p.MaxSeats == 0 {
		c.problem(at+".max_seats", "missing; required where shared is true")
	}
	c.compileNumber(at+".queue", &p.Queue, spec.Queue, 0, fair.MaxQueue)
	if p.Shared && p.Queue == 0 {
		c.problem(at+".queue", "0 is not allowed where shared is true; 1 to %d is: requests wait while seats are brought to their process", fair.MaxQueue)
	}
	c.compileWait(at+".queue_timeout", &p.QueueTimeout, spec.QueueTimeout)
	c.compileWait(at+".timeout", &p.Timeout, spec.Timeout)
	c.compileWait(at+".target", &p.Target, spec.Target)
	return p
}

// compileNumber sets what is given.
func (c *compiler) compileNumber(at string, to, n *int, least, most int) {
	if n == nil {
		return
	}
	if *to = *n; *n < least || *n > most {
		c.problem(at, "%d is out of bounds; %d to %d is allowed", *n, least, most)
	}
}

// compileWait sets a time that a request may take, if it is given.
func (c *compiler) compileWait(at string, to *time.Duration, d *Duration) {
	if d == nil {
		return
	}
	if *to = time.Duration(*d); *d < Duration(time.Millisecond) || *d > Duration(fair.MaxTimeout) {
		c.problem(at, "%v is out of bounds; %v to %v is allowed", *d, Duration(time.Millisecond), Duration(fair.MaxTimeout))
	}
}

// maxRoutes is the most routes of an IsolationSpec.
const maxRoutes = 10_000

func (c *compiler) compileRoutes(at string, i *Isolation, spec *IsolationSpec) {
	specs := spec.Routes
	if len(specs) > maxRoutes {
		c.problem(at, "%d are given; at most %d are allowed", len(specs), maxRoutes)
		specs = specs[:maxRoutes]
	}
	for n := range specs {
		s, at := &specs[n], item(at, n)
		r := route{position: n, match: c.compileMatch(at+".match", &s.Match), enabled: s.Enabled == nil || *s.Enabled, cost: 1}
		c.compileNumber(at+".cost", &r.cost, s.Cost, 1, spec.Seats)
		for _, name := range slices.Sorted(maps.Keys(i.Config.Plans)) {
			if most := i.Config.Plans[name].MaxSeats; most != 0 && r.cost > most && r.enabled {
				c.problem(at+".cost", "%d is more than the %d seats that a tenant of plan %q may hold; it would never start", r.cost, most, name)
			}
		}
		c.compileWait(at+".timeout", &r.timeout, s.Timeout)
		switch s.Priority {
		case "", "normal":
		case "low":
			r.priority = fair.Low
		case "high":
			r.priority = fair.High
		default:
			c.unknown(at+".priority", s.Priority, []string{"low", "normal", "high"})
		}
		i.routes = append(i.routes, r)
	}
	slices.SortStableFunc(i.routes, func(a, b route) int {
		return strings.Compare(particular(a.match.template), particular(b.match.template))
	})
	for n := range i.routes {
		i.templates.add(&i.routes[n].match, int32(n))
	}
	i.templates.build(func(n int32) []condition { return i.routes[n].match.exact() })
}

// particular orders templates: of two that match one path, the more particular has
// text where the other has braces, or a segment where the other takes the rest.
func particular(template []segment) string {
	kinds := make([]byte, 0, len(template)+1)
	for _, s := range template {
		kinds = append(kinds, byte(s.kind))
	}
	return string(append(kinds, byte(segmentText))) // the end is as particular as text
}
