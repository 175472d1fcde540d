package rules

import "time"

// Spec is a whole set of rules as people write it. The yaml tags name the
// fields in a rules file, and doc says what they mean to whoever edits one.
type Spec struct {
	Paths PathSpec        `yaml:"paths" doc:"How the attribute api, the name of the API that a request calls, is made of its path."`
	Plans map[string]Plan `yaml:"plans" doc:"Named groups of callers, for overrides."`
	// Isolation is nil if no request needs a seat.
	Isolation *IsolationSpec `yaml:"isolation" doc:"Keeps tenants from slowing each other: how many requests run at once, and whose is next."`
	Rules     []RuleSpec     `yaml:"rules" doc:"The limits. Every rule that matches a request applies; all of them are charged, or none."`
}

// PathSpec says how the attribute api is made of a path: it is the path with # in
// place of every id and in lower case, such as /entity/#/bundle.
type PathSpec struct {
	After string   `yaml:"after" doc:"A segment, such as v1: the name of an API begins behind the first of it. Where a path has none it is all of the path."`
	IDs   []string `yaml:"ids" doc:"Which segments are ids: numbers, uuids, hashes (16 hexadecimal digits or more), and a prefix with * behind it, such as syn*, for the prefix and a number. Default: numbers, uuids and hashes."`
	Names []string `yaml:"names" doc:"Behind what a segment is an id, whatever it is: a segment, such as alias; or all of an API, such as /entity/alias."`
}

// Plan says who belongs to a plan. A request whose attribute "plan" is set
// belongs to that plan without being listed.
type Plan struct {
	Members map[string][]string `yaml:"members" doc:"Attribute to the values that belong to the plan, such as tenant: [acme, globex]."`
}

// RuleSpec is one rule.
type RuleSpec struct {
	Name         string         `yaml:"name" required:"true" doc:"What decisions, headers and metrics call the rule: lower-case letters, digits, - and _; at most 64."`
	Match        MatchSpec      `yaml:"match" doc:"Which requests the rule is for. Every part given must match; with none the rule is for all."`
	Key          []string       `yaml:"key" doc:"The attributes to count by; a|b means a, or b where a is missing. With none, all requests share one counter. Requests without the attribute share one, too."`
	Limits       []LimitSpec    `yaml:"limits" required:"true" doc:"One or several; all must admit a request."`
	Mode         string         `yaml:"mode" enum:"exact,local,synced" doc:"exact: in the store, never above the limit. local: in this process alone. synced: in this process, which tells the store in the background; above the limit by what the processes spend meanwhile. Default exact."`
	MaxOvershoot *int64         `yaml:"max_overshoot" doc:"With mode synced: by how many units all processes together may pass each limit of the rule, 1 or more. The less, the more often the store is asked. Default: no bound."`
	Cost         int64          `yaml:"cost" doc:"Units that a request spends. Default 1."`
	Shadow       bool           `yaml:"shadow" doc:"Count and report what would be denied, and deny nothing."`
	Status       int            `yaml:"status" enum:"429,503" doc:"HTTP status of a denial. Default 429."`
	OnStoreError string         `yaml:"on_store_error" enum:"local,allow,deny" doc:"When the store cannot answer: count in this process, allow, or refuse with 503. Default local."`
	Queue        *QueueSpec     `yaml:"queue" doc:"Let a request over the rate wait its turn instead of being denied."`
	Replaces     []string       `yaml:"replaces" doc:"Rules that do not apply where this one does, nor to anything that is decided together with it. A rule in shadow replaces none."`
	Overrides    []OverrideSpec `yaml:"overrides" doc:"Other limits for some callers; the first that applies wins."`
}

// MatchSpec says which requests a rule is for.
type MatchSpec struct {
	Methods    []string           `yaml:"methods" doc:"HTTP methods, such as [GET, POST]."`
	Host       string             `yaml:"host" doc:"Host name without port; *.example.com matches every name below example.com."`
	Path       string             `yaml:"path" doc:"Path template: /items/{user} has one segment in place of {user}, /files/{path...} any number. What the braces catch is an attribute."`
	Headers    map[string]Pattern `yaml:"headers" doc:"Header name to what its value must be."`
	Attributes map[string]Pattern `yaml:"attributes" doc:"Attribute to what its value must be."`
}

// Pattern is what a header or attribute must be. As text: a value; a value
// with * at its end for a prefix; * for present; empty for absent.
type Pattern string

// LimitSpec is one limit of a rule.
type LimitSpec struct {
	Name      string   `yaml:"name" doc:"Default: the rule's name, with the window behind it where a rule has several limits."`
	Algorithm string   `yaml:"algorithm" enum:"gcra,sliding,sliding-proportional,log,fixed" doc:"How to count. Default gcra."`
	Quota     int64    `yaml:"quota" required:"true" doc:"Units that each window admits; 0 admits nothing."`
	Window    Duration `yaml:"window" required:"true" doc:"The span that quota is counted over: 1ms to 365d, such as 10s, 1m30s, 1d."`
	Burst     *int64   `yaml:"burst" doc:"The most that can be spent at one instant under gcra. Default: quota."`
}

// QueueSpec shapes instead of denying.
type QueueSpec struct {
	MaxWait  Duration `yaml:"max_wait" required:"true" doc:"The longest that a request waits; if its turn would come later it is denied at once."`
	MaxQueue int      `yaml:"max_queue" required:"true" doc:"How many requests of one key may wait, 1 to 10000."`
}

// OverrideSpec changes a rule for some callers.
type OverrideSpec struct {
	When   map[string]Pattern `yaml:"when" doc:"Attribute to what its value must be."`
	Plan   string             `yaml:"plan" doc:"The plan that the caller must belong to."`
	Exempt bool               `yaml:"exempt" doc:"The rule does not apply: not counted, not denied."`
	Limits []LimitSpec        `yaml:"limits" doc:"In place of the rule's limits, each in place of the one at the same position, whose name and algorithm it keeps. What was spent under one counts under the other."`
	Until  *time.Time         `yaml:"until" doc:"When the override ends, such as 2027-01-31T00:00:00Z."`
}
