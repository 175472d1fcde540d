package rules

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// matcher is a compiled MatchSpec. Its template has been followed in the tree
// before the rest is tested.
type matcher struct {
	methods    []string // sorted; none for all
	host       hostPattern
	template   []segment
	ofAPI      bool // the template is of the API, not of the path
	variables  []variable
	headers    []condition
	attributes []condition
}

// mismatch is the first part of a match that a request does not meet. The zero
// mismatch says that it meets all of them.
type mismatch struct {
	part Part
	at   int // in the headers or the attributes
}

// test looks for a part of m that the request does not meet, but for the path.
// What is cheap to ask comes first.
func (m *matcher) test(a *attributes) mismatch {
	if len(m.methods) > 0 && !m.hasMethod(a.request.Method()) {
		return mismatch{part: PartMethod}
	}
	if m.host.name != "" && !m.host.match(normalizeHost(a.request.Host())) {
		return mismatch{part: PartHost}
	}
	for i := range m.headers {
		if !m.headers[i].match(a.request.Header(m.headers[i].name)) {
			return mismatch{PartHeader, i}
		}
	}
	return a.meet(m.attributes)
}

// hasMethod ignores letter case: who answers get as GET is not to be had for
// free by it.
func (m *matcher) hasMethod(method string) bool {
	for _, allowed := range m.methods {
		if strings.EqualFold(allowed, method) {
			return true
		}
	}
	return false
}

// exact returns the conditions by which a rule can be found without having
// looked at its template.
func (m *matcher) exact() []condition {
	conditions := slices.DeleteFunc(slices.Clone(m.attributes), func(c condition) bool {
		return c.name == planAttribute || slices.ContainsFunc(m.variables, func(v variable) bool { return v.name == c.name })
	})
	if m.host.name != "" && !m.host.below {
		conditions = append(conditions, condition{hostAttribute, pattern{exact, m.host.name}})
	}
	return conditions
}

func (c *compiler) compileMatch(at string, spec *MatchSpec) matcher {
	var m matcher
	for i, method := range spec.Methods {
		if !IsToken(method) {
			c.problem(item(at+".methods", i), "%q is not a method; a name such as GET or POST is allowed", method)
			continue
		}
		m.methods = append(m.methods, strings.ToUpper(method))
	}
	slices.Sort(m.methods)
	m.methods = slices.Compact(m.methods)
	var err error
	if spec.Host != "" {
		if m.host, err = parseHost(spec.Host); err != nil {
			c.problem(at+".host", "%v", err)
		}
	}
	if spec.Path == "" {
		m.template = []segment{{segmentRest, ""}}
	} else if m.template, err = c.parseTemplate(spec.Path); err != nil {
		c.problem(at+".path", "%v", err)
	} else {
		m.variables = variables(m.template)
		m.ofAPI = slices.Contains(m.template, segment{segmentText, idSegment})
		c.usesAPI = c.usesAPI || m.ofAPI
	}
	m.headers = c.conditions(at+".headers", spec.Headers, checkHeaderName)
	m.attributes = c.conditions(at+".attributes", spec.Attributes, c.attributeName)
	return m
}

func checkHeaderName(name string) (string, error) {
	if !IsToken(name) {
		return "", fmt.Errorf("%q is not a header; a name such as X-Api-Key is allowed", name)
	}
	return textproto.CanonicalMIMEHeaderKey(name), nil
}

// IsToken reports whether s is a token of RFC 9110, section 5.6.2.
func IsToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}
