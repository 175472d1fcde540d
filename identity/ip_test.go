package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/identity"
)

func TestClientIP(t *testing.T) {
	const (
		direct   = ``
		xff      = `trusted_proxies: [10.0.0.0/8, 192.0.2.7, "2001:db8:1::/48", "::1"]`
		mapped   = `trusted_proxies: ["::ffff:10.0.0.0/104", "::ffff:192.0.2.7"]`
		rfc7239  = xff + "\nforwarded_header: forwarded"
		whole    = xff + "\nipv6_prefix: 128"
		wide     = xff + "\nipv6_prefix: 48"
		peer     = "10.0.0.1:1000"
		hostPart = ` for="192.0.2.60";host="a,b;for=6.6.6.6";proto=https`
	)
	long := strings.Repeat("1.1.1.1, ", 2000)
	for _, tt := range []struct {
		name, section, peer string
		headers             []string
		want                string
	}{
		{"no proxies: the peer", direct, "203.0.113.9:1", nil, "203.0.113.9"},
		{"no proxies: the header is not read", direct, "203.0.113.9:1", []string{"X-Forwarded-For: 1.1.1.1"}, "203.0.113.9"},
		{"spoofed by a stranger", xff, "203.0.113.9:1", []string{"X-Forwarded-For: 1.1.1.1"}, "203.0.113.9"},
		{"one hop", xff, peer, []string{"X-Forwarded-For: 1.1.1.1"}, "1.1.1.1"},
		{"what the caller wrote is left of it", xff, peer, []string{"X-Forwarded-For: 6.6.6.6, 1.1.1.1"}, "1.1.1.1"},
		{"several hops", xff, peer, []string{"X-Forwarded-For: 6.6.6.6, 1.1.1.1, 192.0.2.7, 10.9.9.9"}, "1.1.1.1"},
		{"several lines", xff, peer, []string{"X-Forwarded-For: 6.6.6.6, 1.1.1.1", "X-Forwarded-For: 192.0.2.7"}, "1.1.1.1"},
		{"all trusted: the first", xff, peer, []string{"X-Forwarded-For: 10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"no header", xff, peer, nil, "10.0.0.1"},
		{"empty header", xff, peer, []string{"X-Forwarded-For: "}, "10.0.0.1"},
		{"garbage: the peer", xff, peer, []string{"X-Forwarded-For: 1.1.1.1, unknown"}, "10.0.0.1"},
		{"garbage behind a proxy: the proxy", xff, peer, []string{"X-Forwarded-For: x, 10.0.0.2"}, "10.0.0.2"},
		{"garbage on the left is not looked at", xff, peer, []string{"X-Forwarded-For: \"\\,;x, 1.1.1.1"}, "1.1.1.1"},
		{"empty element", xff, peer, []string{"X-Forwarded-For: 1.1.1.1,"}, "10.0.0.1"},
		{"leading zeros", xff, peer, []string{"X-Forwarded-For: 01.1.1.1"}, "10.0.0.1"},
		{"ports", xff, peer, []string{"X-Forwarded-For: 1.1.1.1:80, [2001:db8:1::2]:443"}, "1.1.1.1"},
		{"a port that is none", xff, peer, []string{"X-Forwarded-For: 1.1.1.1:http"}, "10.0.0.1"},
		{"an address in the wrong brackets", xff, peer, []string{"X-Forwarded-For: [1.1.1.1]"}, "10.0.0.1"},
		{"spaces and tabs", xff, peer, []string{"X-Forwarded-For: 6.6.6.6 ,\t1.1.1.1 "}, "1.1.1.1"},
		{"an element that never ends", xff, peer, []string{"X-Forwarded-For: 1.1.1.1" + strings.Repeat(" ", 300)}, "10.0.0.1"},
		{"thousands of elements", xff, peer, []string{"X-Forwarded-For: " + long + "2.2.2.2"}, "2.2.2.2"},
		{"64 hops are followed", xff, peer, []string{"X-Forwarded-For: 1.1.1.1" + strings.Repeat(",10.0.0.2", 63)}, "1.1.1.1"},
		{"more are not", xff, peer, []string{"X-Forwarded-For: 1.1.1.1" + strings.Repeat(",10.0.0.2", 64)}, "10.0.0.2"},
		{"Forwarded is not asked for", xff, peer, []string{"Forwarded: for=1.1.1.1"}, "10.0.0.1"},

		{"IPv6 by /64", direct, "[2001:db8::1:2:3:4]:80", nil, "2001:db8::/64"},
		{"IPv6 behind a proxy", xff, "[2001:db8:1::5]:80", []string{"X-Forwarded-For: 2001:db8:2:3:4:5:6:7"}, "2001:db8:2:3::/64"},
		{"IPv6, whole", whole, "[2001:DB8:0::7]:80", nil, "2001:db8::7"},
		{"IPv6 by /48", wide, "[2001:db8:2:3::7]:80", nil, "2001:db8:2::/48"},
		{"zone", direct, "[fe80::1%eth0]:80", nil, "fe80::/64"},
		{"mapped peer", direct, "[::ffff:203.0.113.9]:80", nil, "203.0.113.9"},
		{"mapped peer is trusted", xff, "[::ffff:10.0.0.1]:80", []string{"X-Forwarded-For: ::ffff:1.1.1.1"}, "1.1.1.1"},
		{"mapped proxies", mapped, peer, []string{"X-Forwarded-For: 1.1.1.1, 192.0.2.7"}, "1.1.1.1"},
		{"unix socket", xff, "@", []string{"X-Forwarded-For: 1.1.1.1"}, "-"},

		{"Forwarded", rfc7239, peer, []string{"Forwarded: for=1.1.1.1"}, "1.1.1.1"},
		{"Forwarded, spoofed", rfc7239, "203.0.113.9:1", []string{"Forwarded: for=1.1.1.1"}, "203.0.113.9"},
		{"Forwarded, hops", rfc7239, peer, []string{"Forwarded: for=6.6.6.6, For=1.1.1.1;proto=http;by=10.0.0.1, FOR=\"10.0.0.2:99\""}, "1.1.1.1"},
		{"Forwarded, IPv6", rfc7239, peer, []string{`Forwarded: proto=https;for="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::/64"},
		{"Forwarded, quoted commas", rfc7239, peer, []string{"Forwarded: for=6.6.6.6," + hostPart}, "192.0.2.60"},
		{"Forwarded, open quote on the left", rfc7239, peer, []string{`Forwarded: for="6.6.6.6, for=1.1.1.1`}, "1.1.1.1"},
		{"Forwarded, open quote", rfc7239, peer, []string{`Forwarded: for=1.1.1.1, for="10.0.0.2`}, "10.0.0.1"},
		{"Forwarded, backslash", rfc7239, peer, []string{`Forwarded: for="1.1.1\.1"`}, "10.0.0.1"},
		{"Forwarded, unknown", rfc7239, peer, []string{"Forwarded: for=unknown"}, "10.0.0.1"},
		{"Forwarded, hidden", rfc7239, peer, []string{"Forwarded: for=_secret"}, "10.0.0.1"},
		{"Forwarded, no for", rfc7239, peer, []string{"Forwarded: proto=https"}, "10.0.0.1"},
		{"Forwarded, two of them", rfc7239, peer, []string{"Forwarded: for=6.6.6.6;for=1.1.1.1"}, "10.0.0.1"},
		{"Forwarded, empty", rfc7239, peer, []string{"Forwarded: for="}, "10.0.0.1"},
		{"Forwarded, no pair", rfc7239, peer, []string{"Forwarded: 1.1.1.1"}, "10.0.0.1"},
		{"Forwarded, text behind a quote", rfc7239, peer, []string{`Forwarded: for="1.1.1.1"x`}, "10.0.0.1"},
		{"Forwarded, X-Forwarded-For is not asked for", rfc7239, peer, []string{"X-Forwarded-For: 1.1.1.1"}, "10.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := open(t, tt.section, nil)
			if got := ask(id, get("/", tt.peer, tt.headers...), "ip"); got != tt.want {
				t.Errorf("ip = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAddressesCostNothing(t *testing.T) {
	id := open(t, "trusted_proxies: [10.0.0.0/8]", nil)
	r := get("/", proxy, "X-Forwarded-For: 6.6.6.6, 198.51.100.7, 10.0.0.2")
	allocs := testing.AllocsPerRun(1000, func() { identify(id, r, "ip") })
	if allocs != 0 {
		t.Errorf("the IPv4 address of a request costs %v allocations, want none", allocs)
	}
}

func identify(id *identity.Identifier, r *http.Request, attribute string) string {
	q := id.Identify(r).(*identity.Request)
	value, _ := q.Attribute(attribute)
	q.Release()
	return value
}

func TestIP(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.0.2.7:80": "192.0.2.7", "2001:db8::7": "2001:db8::/64",
		"[2001:db8::7%eth0]:80": "2001:db8::/64", "[2001:db8::7]": "2001:db8::/64", "::ffff:192.0.2.7": "192.0.2.7",
	} {
		if got, ok := identity.IP(address, 64); !ok || got != want {
			t.Errorf("%s: %q, %t; want %q", address, got, ok, want)
		}
	}
	if got, ok := identity.IP("crawler.example.com", 64); ok {
		t.Errorf("a name is the address %q", got)
	}
}
