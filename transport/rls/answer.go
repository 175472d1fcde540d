package rls

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// Codes of an answer, of a whole one and of each descriptor.
const (
	codeOK        = 1
	codeOverLimit = 2
)

// unitOf returns the number of an answer's unit that is as long as a window, and
// 0, unknown, if there is none.
func unitOf(window time.Duration) uint64 {
	switch window {
	case time.Second:
		return 1
	case time.Minute:
		return 2
	case time.Hour:
		return 3
	case day:
		return 4
	case 30 * day:
		return 5
	case 365 * day:
		return 6
	case 7 * day:
		return 7
	}
	return 0
}

// fieldNames are the header fields that an answer may have, as httpanswer spells
// them and as they are sent.
var fieldNames = [...][2]string{
	{"Ratelimit-Policy", "ratelimit-policy"},
	{"Ratelimit", "ratelimit"},
	{"X-Ratelimit-Limit", "x-ratelimit-limit"},
	{"X-Ratelimit-Remaining", "x-ratelimit-remaining"},
	{"X-Ratelimit-Reset", "x-ratelimit-reset"},
	{"Ratelimit-Limit", "ratelimit-limit"},
	{"Ratelimit-Remaining", "ratelimit-remaining"},
	{"Ratelimit-Reset", "ratelimit-reset"},
	{"Retry-After", "retry-after"},
	{"Stint-Degraded", "stint-degraded"},
}

// encode encodes what c's outcome says.
func (c *call) encode(dialect httpanswer.Dialect) []byte {
	overall := uint64(codeOK)
	if !c.out.Allowed {
		overall = codeOverLimit
	}
	b := appendVarint(c.encoded[:0], 1, overall)
	c.findStatuses()
	for i := range c.statuses {
		b = c.appendStatus(b, i)
	}
	c.encoded = c.appendHeaders(b, dialect)
	return c.encoded
}

// said is what is said about one descriptor.
type said struct {
	nearest *gate.Decision // nil if no limit holds that may be told
	denied  bool
}

// findStatuses finds, for each descriptor, the limit nearest to exhaustion.
func (c *call) findStatuses() {
	for range c.descriptors {
		c.statuses = append(c.statuses, said{})
	}
	for i := range c.out.Decisions {
		d := &c.out.Decisions[i]
		if d.Rule.Shadow {
			break // the enforced ones come first
		}
		s := &c.statuses[d.Request]
		s.denied = s.denied || !d.Allowed
		if httpanswer.Advertised(d) && (s.nearest == nil || httpanswer.Nearer(d, s.nearest)) {
			s.nearest = d
		}
	}
}

func (c *call) appendStatus(b []byte, i int) []byte {
	s, code := &c.statuses[i], uint64(codeOK)
	if s.denied {
		code = codeOverLimit
	}
	var space [256]byte
	inner := appendVarint(space[:0], 1, code)
	switch d := s.nearest; {
	case d != nil:
		unit := unitOf(d.Window)
		var of [192]byte
		current := appendVarint(of[:0], 1, clamp(d.Limit))
		current = appendVarint(current, 2, unit)
		inner = appendBytes(inner, 2, appendBytes(current, 3, d.Policy))
		inner = appendVarint(inner, 3, clamp(d.Remaining))
		var after [16]byte
		inner = appendBytes(inner, 4, appendVarint(after[:0], 1, uint64(httpanswer.Wait(d))))
	case c.out.Exempt(i):
		inner = appendVarint(inner, 3, math.MaxUint32)
	}
	return appendBytes(b, 2, inner)
}

func clamp(n int64) uint64 { return uint64(max(0, min(n, math.MaxUint32))) }

func (c *call) appendHeaders(b []byte, dialect httpanswer.Dialect) []byte {
	if dialect == httpanswer.None {
		return b
	}
	clear(c.header)
	httpanswer.SetHeaders(c.header, dialect, &c.out)
	if !c.out.Allowed {
		httpanswer.SetRetryAfter(c.header, &c.out)
	}
	if len(c.header) == 0 {
		return b
	}
	for _, name := range fieldNames {
		for _, value := range c.header[name[0]] {
			n := 2 + len(name[1]) + 1 + lengthOf(len(value)) + len(value)
			b = binary.AppendUvarint(appendTag(b, 3, wireBytes), uint64(n))
			b = appendBytes(appendBytes(b, 1, name[1]), 2, value)
		}
	}
	return b
}

// lengthOf returns how many bytes a length takes.
func lengthOf(n int) int {
	var space [binary.MaxVarintLen64]byte
	return binary.PutUvarint(space[:], uint64(n))
}

// overridePolicy is the name of limits that requests bring along. No rule can have
// a policy of that name.
const overridePolicy = "limit.override"

// overrideSet has the one rule that limits which requests bring along are charged
// by: all entries count.
var overrideSet = func() *rules.Set {
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name:   "limit-override",
		Key:    []string{domainAttribute, entriesAttribute},
		Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Second)}},
	}}})
	if set == nil {
		panic(problems)
	}
	return set
}()

// instead returns what d is charged by if it brings its own limit along.
func (d *descriptor) instead() []rules.Match {
	match := overrideSet.Match(nil, d, time.Now)
	policy := *match[0].Policies[0]
	policy.Name, policy.Quota, policy.Window = overridePolicy, int64(d.limit.quota), units[d.limit.unit]
	match[0].Policies = []*limit.Policy{&policy}
	return match
}
