package identity

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-dev/stint/rules"
)

const (
	maxAttributes = 64
	maxSources    = 16  // of an attribute
	maxSegment    = 64  // of a path
	maxName       = 128 // bytes, of a header, cookie, parameter or claim
	ipAttribute   = "ip"
	stdIPv6Prefix = 64
)

// reserved are the attributes that requests have without any source.
var reserved = []string{ipAttribute, "method", "host", "path", "api"}

// builder makes an Identifier of a Spec and collects what is wrong with it.
type builder struct {
	Options
	offline  bool // open neither files nor connections
	proxied  bool // the Spec has trusted proxies
	id       *Identifier
	problems []rules.Problem
	keyFiles map[string]keyFile
}

// report adds a problem at path.
func (b *builder) report(path, format string, args ...any) {
	b.problems = append(b.problems, rules.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (b *builder) warn(path, format string, args ...any) {
	b.problems = append(b.problems, rules.Problem{Path: path, Message: fmt.Sprintf(format, args...), Warning: true})
}

// file returns where a file of the Spec is.
func (b *builder) file(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.Dir, name)
}

func (b *builder) build(spec Spec) *Identifier {
	b.id = &Identifier{index: map[string]int{ipAttribute: 0}}
	b.id.sources = [][]source{{clientIP{&b.id.network}}}
	b.buildNetwork(spec)
	if n := len(spec.Attributes); n > maxAttributes {
		b.report("attributes", "has %d attributes; %d are allowed", n, maxAttributes)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Attributes)) {
		b.buildAttribute(name, spec.Attributes[name])
	}
	b.id.requests.New = b.id.newRequest
	return b.id
}

func (b *builder) buildNetwork(spec Spec) {
	n := &b.id.network
	b.proxied = len(spec.TrustedProxies) > 0
	for i, text := range spec.TrustedProxies {
		if p, ok := b.proxy(fmt.Sprintf("trusted_proxies[%d]", i), text); ok {
			n.proxies = append(n.proxies, p)
		}
	}
	switch spec.ForwardedHeader {
	case "", "x-forwarded-for":
		n.header, n.cut = "X-Forwarded-For", plainNode
	case "forwarded":
		n.header, n.cut = "Forwarded", forwardedFor
	default:
		b.report("forwarded_header", "%q is not a header that is known; x-forwarded-for and forwarded are allowed", spec.ForwardedHeader)
	}
	n.ipv6Prefix = spec.IPv6Prefix
	if n.ipv6Prefix == 0 {
		n.ipv6Prefix = stdIPv6Prefix
	}
	if n.ipv6Prefix < 1 || n.ipv6Prefix > 128 {
		b.report("ipv6_prefix", "%d is not a length of an IPv6 prefix; 1 to 128 are allowed", spec.IPv6Prefix)
	}
}

// proxy reads an address or a CIDR. Like the addresses that it is compared
// with, an IPv4 network that is mapped into IPv6 becomes one of IPv4.
func (b *builder) proxy(path, text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			b.report(path, "%q is neither an address nor a CIDR; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32", text)
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p.Bits() == 0 {
		b.warn(path, "%s trusts everyone, so every caller can claim any address; name the proxies in front", text)
	} else if p != p.Masked() {
		b.warn(path, "%s is read as %s; write that, or the address alone", text, p.Masked())
	}
	return p.Masked(), true
}

func (b *builder) buildAttribute(name string, specs []SourceSpec) {
	path := "attributes." + name
	switch {
	case slices.Contains(reserved, name):
		b.report(path, "every request has the attribute %s; give yours another name", name)
	case !rules.IsAttributeName(name):
		b.report(path, "%q is not a name for an attribute; letters, digits, _ and - are allowed, 1 to 64 of them", name)
	case len(specs) == 0:
		b.report(path, "has no source; write a list, such as [{header: {name: X-User}}]")
	case len(specs) > maxSources:
		b.report(path, "has %d sources; %d are allowed", len(specs), maxSources)
	}
	var sources []source
	for i, spec := range specs {
		if s := b.buildSource(fmt.Sprintf("%s[%d]", path, i), spec); s != nil {
			sources = append(sources, s)
		}
	}
	b.id.index[name] = len(b.id.sources)
	b.id.sources = append(b.id.sources, sources)
}

// buildSource returns the source that spec describes, or nil if it is wrong.
func (b *builder) buildSource(path string, spec SourceSpec) source {
	var kinds []string
	var built source
	add := func(kind string, set bool, build func(path string) source) {
		if set {
			kinds = append(kinds, kind)
			built = build(path + "." + kind)
		}
	}
	add("jwt", spec.JWT != nil, func(path string) source { return b.buildJWT(path, *spec.JWT) })
	add("api_key", spec.APIKey != nil, func(path string) source { return b.buildAPIKey(path, *spec.APIKey) })
	add("header", spec.Header != nil, func(path string) source { return b.buildHeader(path, *spec.Header) })
	add("cookie", spec.Cookie != nil, func(path string) source { return b.buildCookie(path, *spec.Cookie) })
	add("basic_user", spec.BasicUser != nil, func(path string) source {
		read := basicUser
		if spec.BasicUser.Urlencoded {
			read = urlencodedBasicUser
		}
		return b.buildClaim(path, "a user name", spec.BasicUser.Unverified, claim{what: "user of Basic authentication", read: read})
	})
	add("query", spec.Query != nil, func(path string) source {
		b.checkName(path+".name", "parameter", spec.Query.Name, anyName)
		return parameter{spec.Query.Name}
	})
	add("form", spec.Form != nil, func(path string) source {
		b.checkName(path+".name", "parameter", spec.Form.Name, anyName)
		b.checkTrust(path, "the parameter "+spec.Form.Name, spec.Form.Unverified)
		return field{spec.Form.Name, spec.Form.Unverified}
	})
	add("path", spec.Path != nil, func(path string) source {
		if n := spec.Path.Segment; n < 1 || n > maxSegment {
			b.report(path+".segment", "%d is not a segment; 1 to %d are allowed", n, maxSegment)
		}
		return segment(spec.Path.Segment)
	})
	switch len(kinds) {
	case 0:
		b.report(path, "names no source; one of jwt, api_key, header, cookie, basic_user, query, form and path is needed")
	case 1:
		return built
	default:
		b.report(path, "has %s; a source is one of them, so make each an item of the list", strings.Join(kinds, " and "))
	}
	return nil
}

func (b *builder) buildHeader(path string, spec NamedSpec) source {
	b.checkName(path+".name", "header", spec.Name, rules.IsToken)
	name := http.CanonicalHeaderKey(spec.Name)
	return b.buildClaim(path, spec.Name, spec.Unverified, claim{
		what: "header " + name, read: func(r *http.Request) string { return header(r, name) }, credential: rules.IsCredential(name),
	})
}

func (b *builder) buildCookie(path string, spec NamedSpec) source {
	b.checkName(path+".name", "cookie", spec.Name, rules.IsToken)
	return b.buildClaim(path, "the cookie "+spec.Name, spec.Unverified, claim{
		what: "cookie " + spec.Name, read: func(r *http.Request) string { return cookie(r, spec.Name) }, credential: true,
	})
}

func (b *builder) buildClaim(path, what string, unverified bool, c claim) source {
	b.checkTrust(path, what, unverified)
	c.unverified = unverified
	return c
}

// checkTrust reports a source that nobody is believed to give.
func (b *builder) checkTrust(path, what string, unverified bool) {
	if !unverified && !b.proxied {
		b.report(path, "nobody is trusted to send %s, so it would never be read; list the proxies that set it in trusted_proxies, or write unverified: true to believe every caller", what)
	}
}

// checkName reports a name that no request can have.
func (b *builder) checkName(path, what, name string, valid func(string) bool) {
	switch {
	case name == "":
		b.report(path, "is missing; give the name of the %s", what)
	case len(name) > maxName:
		b.report(path, "has %d bytes; %d are allowed", len(name), maxName)
	case !valid(name):
		b.report(path, "%q is not the name of a %s; letters, digits and - are allowed, and a few signs more", name, what)
	}
}

func anyName(string) bool { return true }
