// Package rules turns what a request says about itself into the limits that
// hold for it.
//
// A [Spec] is what people write; [Compile] checks all of it and makes a [Set],
// which does not change any more and can be asked from every goroutine. For a
// [Request] a Set answers with the rules that match, and for each of them with
// the policies to charge and the key to charge them under.
package rules

import (
	"time"

	"github.com/stint-dev/stint/limit"
)

// Request is what rules look at. A transport or a log gives it. Attributes are
// asked for one by one, and only when a rule depends on them, so that a costly
// one (a signed token, say) is only verified for who needs it.
type Request interface {
	// Method returns the HTTP method, or "" where there is none.
	Method() string
	// Host returns the host as the caller named it, port and all.
	Host() string
	// Path returns the path as the caller sent it, percent-encoding and all.
	Path() string
	// Header returns the first value of a header, or "".
	Header(name string) string
	// Attribute returns an attribute of the caller, such as user or ip. It is
	// not asked for method, host and path, which are those above.
	Attribute(name string) (value string, ok bool)
}

// Rule is one compiled rule. Its fields are for reading only.
type Rule struct {
	Name   string
	Cost   int64
	Shadow bool
	// Status is the HTTP status of a denial, 429 or 503.
	Status int
	// MaxWait and MaxQueue are 0 unless requests may wait their turn.
	MaxWait  time.Duration
	MaxQueue int
	// Policies are the rule's limits without any override.
	Policies []*limit.Policy
	// Row is the id of the row that the rule is from, 0 if it is from no table.
	Row int64
	// API is the API that the rule is for, with a * behind it if it is for all that
	// begin so; empty if the rule asks for none.
	API string
	// Replaces are the rules that do not apply to requests decided together if
	// this one applies to one of them. Nil if it is in shadow.
	Replaces []*Rule
	// Spec is what the rule was made from.
	Spec *RuleSpec

	position  int
	match     matcher
	key       []keyPart
	overrides overrides
}

// Match is one rule that applies to a request.
type Match struct {
	Rule *Rule
	// Policies are the limits to charge: the rule's own, or those of the
	// override that applies. There are none if the caller is exempt.
	Policies []*limit.Policy
	// Key is what to charge them under. It is made of the length-prefixed
	// names and values of the rule's key attributes, so that no two callers
	// share one by accident or by design, and has at most MaxKey bytes. It is
	// empty if the rule counts all requests together, and if Exempt.
	// DescribeKey writes it for people.
	Key string
	// Override is the index in Rule.Spec.Overrides of the one that applies, or -1.
	Override int
	// Exempt: the override says that the rule is not for this caller.
	Exempt bool
}

// Set is a compiled Spec. It is immutable and safe for simultaneous use.
type Set struct {
	rules     []*Rule
	plans     plans
	paths     paths
	usesAPI   bool // something depends on the attribute api
	templates templates
	isolation *Isolation
}

// Isolation returns who gets how many seats; nil if no request needs one, as under a nil
// Set.
func (s *Set) Isolation() *Isolation {
	if s == nil {
		return nil
	}
	return s.isolation
}

// Rules returns the rules in the order of the Spec.
func (s *Set) Rules() []*Rule { return s.rules }
