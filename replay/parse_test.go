package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/limit/algo"
)

// noon is 2000-10-10T13:55:36Z.
const noon = 971186136 * algo.Second

var compareEntries = cmp.AllowUnexported(entry{}, attribute{})

func TestCombinedLines(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       entry
	}{
		{
			"common", `192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] "GET /a?b=c HTTP/1.0" 200 2326`,
			entry{at: noon, method: "GET", path: "/a", ip: "192.0.2.7"},
		},
		{
			"combined", `192.0.2.7 - alice [10/Oct/2000:13:55:36 +0000] "POST /a HTTP/2.0" 200 2326 "https://example.com/" "curl/8.5" "203.0.113.9"`,
			entry{at: noon, method: "POST", path: "/a", ip: "192.0.2.7", user: "alice", referer: "https://example.com/", userAgent: "curl/8.5"},
		},
		{
			"west of Greenwich", `192.0.2.7 - - [10/Oct/2000:06:55:36 -0700] "GET / HTTP/1.0" 200 -`,
			entry{at: noon, method: "GET", path: "/", ip: "192.0.2.7"},
		},
		{
			"half an hour off, on the next day", `192.0.2.7 - - [11/Oct/2000:00:25:36 +1030] "GET / HTTP/1.0" 200 -`,
			entry{at: noon, method: "GET", path: "/", ip: "192.0.2.7"},
		},
		{
			"IPv6", `2001:db8::7 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 -`,
			entry{at: noon, method: "GET", path: "/", ip: "2001:db8::7"},
		},
		{
			"virtual host", `www.example.com:443 192.0.2.7 - alice [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 -`,
			entry{at: noon, method: "GET", host: "www.example.com:443", path: "/", ip: "192.0.2.7", user: "alice"},
		},
		{
			"a user with spaces", `192.0.2.7 - alice b c [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 -`,
			entry{at: noon, method: "GET", path: "/", ip: "192.0.2.7", user: "alice b c"},
		},
		{
			"escapes of nginx", `192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] "GET /\x22a\x5C HTTP/1.0" 200 - "-" "\x22\xE2\x82\xAC\x22"`,
			entry{at: noon, method: "GET", path: `/"a\`, ip: "192.0.2.7", userAgent: `"€"`},
		},
		{
			"escapes of Apache", `192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] "GET /\"a\\ HTTP/1.0" 200 - "\t\n\r\b\v\f" "\x4\z"`,
			entry{at: noon, method: "GET", path: `/"a\`, ip: "192.0.2.7", referer: "\t\n\r\b\v\f", userAgent: "x4z"},
		},
		{
			"a whole URL", `192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] "GET http://example.com:80/a#b HTTP/1.0" 200 -`,
			entry{at: noon, method: "GET", host: "example.com:80", path: "/a", ip: "192.0.2.7"},
		},
		{
			"no protocol, spaces in the path", `192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] "GET /a b" 200 -`,
			entry{at: noon, method: "GET", path: "/a b", ip: "192.0.2.7"},
		},
	} {
		var got entry
		if err := new(combinedParser).parse(tt.line, &got); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if diff := cmp.Diff(tt.want, got, compareEntries); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestMalformedCombinedLines(t *testing.T) {
	const head, request = `192.0.2.7 - - `, ` "GET / HTTP/1.0" 200 -`
	for _, tt := range []struct {
		line string
		want error
	}{
		{"garbage", errNoTime},
		{"\x00\xff\x16\x03\x01", errNoTime},
		{head + "[10/Oct/2000:13:55:36 +0000", errNoTime},
		{"192.0.2.7 - [10/Oct/2000:13:55:36 +0000]" + request, errFields},
		{head + "[10/Oct/2000 13:55:36 +0000]" + request, errTime},
		{head + "[31/Feb/2000:13:55:36 +0000]" + request, errTime},
		{head + "[10/Oct/2000:24:00:00 +0000]" + request, errTime},
		{head + "[10/Oct/2000:13:60:00 +0000]" + request, errTime},
		{head + "[10/Oct/2000:13:5\x00:00 +0000]" + request, errTime},
		{head + "[2000-10-10T13:55:36+00:00]" + request, errTime},
		{head + "[31/Dec/1969:23:59:59 +0000]" + request, errEarly},
		{head + "[10/Oct/2000:13:55:36 +0000] 200", errNoRequest},
		{head + `[10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0`, errOpenQuote},
		{head + `[10/Oct/2000:13:55:36 +0000] "GET / \`, errOpenQuote},
		{head + `[10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 - "ref`, errOpenQuote},
		{head + `[10/Oct/2000:13:55:36 +0000] "-" 408 -`, errRequestDash},
		{head + `[10/Oct/2000:13:55:36 +0000] "" 400 0`, errRequestDash},
		{head + `[10/Oct/2000:13:55:36 +0000] "GET" 400 0`, errRequest},
		{head + `[10/Oct/2000:13:55:36 +0000] "GET  HTTP/1.1" 400 0`, errRequest},
		{head + `[10/Oct/2000:13:55:36 +0000] " /" 400 0`, errRequest},
		{head + `[10/Oct/2000:13:55:36 +0000] "\x16\x03\x01 \x02" 400 0`, errRequestMethod},
	} {
		if err := new(combinedParser).parse(tt.line, new(entry)); err != tt.want {
			t.Errorf("%q: %v; want %v", tt.line, err, tt.want)
		}
	}
}

// TestClockEqualsTheLibrary reads instants by one clock, forwards and back
// over days and zones, and compares with package time.
func TestClockEqualsTheLibrary(t *testing.T) {
	var c clfClock
	at := time.Date(2000, 2, 28, 22, 59, 58, 0, time.UTC)
	for i := range 5000 {
		zone := time.FixedZone("", (i%3-1)*5400)
		text := at.In(zone).Format(clfLayout)
		if got, err := c.parse(text); err != nil || got != algo.Ticks(at.UnixMicro()) {
			t.Fatalf("%s: %v, %v; want %v", text, got, err, at.UnixMicro())
		}
		at = at.Add(time.Duration(i%7-2) * 1777 * time.Second)
	}
	if leap, err := c.parse("31/Dec/2016:23:59:60 +0000"); err != nil || leap != 1483228800*algo.Second {
		t.Errorf("a leap second: %v, %v", leap, err)
	}
}

func TestJSONLines(t *testing.T) {
	p, err := newJSONParser(map[string]string{"time": "ts", "method": "req.method", "path": "req.url", "ip": "remote", "user": "uid", "tenant": "auth.tenant.id", "admin": "auth.admin"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		line string
		want entry
	}{
		{`{"ts":"2000-10-10T13:55:36Z"}`, entry{at: noon}},
		{`{"ts":"2000-10-10T15:55:36.000250+02:00"}`, entry{at: noon + 250}},
		{`{"ts":971186136}`, entry{at: noon}},
		{`{"ts":971186136.00025}`, entry{at: noon + 250}},
		{`{"ts":9.71186136e8}`, entry{at: noon}},
		{`{"ts":971186136000}`, entry{at: noon}},
		{`{"ts":971186136000.25}`, entry{at: noon + 250}},
		{`{"ts":"971186136"}`, entry{at: noon}},
		{
			` { "ts" : 971186136 , "req" : { "method" : "GET" , "headers":{"a":["}\"",{}]}, "url" : "/a?b" } , "remote":"192.0.2.7", "uid":42 } `,
			entry{at: noon, method: "GET", path: "/a", ip: "192.0.2.7", user: "42"},
		},
		{
			`{"ts":971186136,"auth":{"tenant":{"id":"acme"},"admin":true},"uid":null,"host":"example.com","user_agent":"curl","referer":"r"}`,
			entry{at: noon, host: "example.com", userAgent: "curl", referer: "r", attributes: []attribute{{"tenant", "acme"}, {"admin", "true"}}},
		},
		{`{"ts":971186136,"auth":7,"uid":"\u0061\"\\\/\b\f\n\r\t\u20AC\uD83D\uDE00\uD800x"}`, entry{at: noon, user: "a\"\\/\b\f\n\r\t€😀\uFFFDx"}},
		{`{"ts":971186136,"\u0075id":"alice"}`, entry{at: noon, user: "alice"}},
		{`{"ts":971186136,"uid":"-","remote":"","referer":"-","auth":{"tenant":{"id":"-"},"admin":""}}`, entry{at: noon}},
	} {
		var got entry
		if err := p.parse(tt.line, &got); err != nil {
			t.Errorf("%s: %v", tt.line, err)
		} else if diff := cmp.Diff(tt.want, got, compareEntries); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
}

func TestMalformedJSONLines(t *testing.T) {
	deep := map[string]string{"x": strings.Repeat("a.", maxDepth-1) + "a"}
	p, err := newJSONParser(deep)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		line string
		want error
	}{
		{``, errJSONObject},
		{`[]`, errJSONObject},
		{"\x00\xff", errJSONObject},
		{`{}`, errJSONNoTime},
		{`{"time":null}`, errJSONNoTime},
		{`{"time":1`, errJSONSyntax},
		{`{"time":1,}`, errJSONSyntax},
		{`{"time" 1}`, errJSONSyntax},
		{`{"time":}`, errJSONSyntax},
		{`{time:1}`, errJSONSyntax},
		{`{"time":1 "a":2}`, errJSONSyntax},
		{`{"a":tru,"time":1}`, errJSONSyntax},
		{`{"a":[1,"time":1}`, errJSONSyntax},
		{`{"a":"\"}`, errJSONSyntax},
		{`{"user":"\q","time":1}`, errJSONSyntax},
		{`{"user":"\u12g4","time":1}`, errJSONSyntax},
		{`{"user":"\`, errJSONSyntax},
		{`{"time":1} {}`, errJSONAfter},
		{`{"time":true}`, errJSONTime},
		{`{"time":""}`, errJSONTime},
		{`{"time":"yesterday"}`, errJSONTime},
		{`{"time":"2000-13-10T00:00:00Z"}`, errJSONTime},
		{`{"time":"1969-12-31T23:59:59Z"}`, errEarly},
		{`{"time":-1}`, errEarly},
		{`{"time":971186136000000}`, errJSONRange},
		{`{"time":1e300}`, errJSONRange},
		{strings.Repeat(`{"a":`, maxDepth+1) + "1", errJSONSyntax},
	} {
		if err := p.parse(tt.line, new(entry)); err != tt.want {
			t.Errorf("%s: %v; want %v", tt.line, err, tt.want)
		}
	}
}

func TestAttributeIP(t *testing.T) {
	for _, tt := range []struct {
		text string
		bits int
		want string
	}{
		{"192.0.2.7", 64, "192.0.2.7"},
		{"192.0.2.7:4711", 64, "192.0.2.7"},
		{"::ffff:192.0.2.7", 64, "192.0.2.7"},
		{"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3:4:5:6", 48, "2001:db8:1::/48"},
		{"2001:db8::7", 128, "2001:db8::7"},
		{"[2001:db8::7%eth0]:4711", 64, "2001:db8::/64"},
		{"[2001:db8::7]", 64, "2001:db8::/64"},
		{"unix:", 64, "unix:"},
		{"crawler.example.com", 64, "crawler.example.com"},
	} {
		e := entry{ip: tt.text, ipv6Prefix: tt.bits}
		if got, ok := e.Attribute("ip"); got != tt.want || !ok {
			t.Errorf("%s with %d bits: %s, want %s", tt.text, tt.bits, got, tt.want)
		}
	}
	if _, ok := new(entry).Attribute("ip"); ok {
		t.Error("an address out of nothing")
	}
}

func TestHeaders(t *testing.T) {
	e := entry{userAgent: "curl", referer: "r"}
	if e.Header("user-agent") != "curl" || e.Header("Referer") != "r" || e.Header("Accept") != "" {
		t.Error("not the headers of the log")
	}
}

func FuzzCombined(f *testing.F) {
	f.Add(`192.0.2.7 - alice [10/Oct/2000:13:55:36 +0000] "POST /a?b HTTP/2.0" 200 2326 "https://example.com/" "curl/8.5"`)
	f.Add(`example.com 192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET http://a/\x22\" HTTP/1.1" 200 - "\x" "\`)
	f.Add(`::1 - - [99/Oct/2000:13:55:36 +9999] "-"`)
	f.Fuzz(func(t *testing.T, line string) {
		var p combinedParser
		var first, second entry
		err := p.parse(line, &first)
		if again := p.parse(line, &second); again != err {
			t.Fatalf("%v, then %v", err, again)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(first, second, compareEntries); diff != "" {
			t.Errorf("read twice:\n%s", diff)
		}
		if first.at < 0 || first.method == "" || strings.ContainsAny(first.path, "?#") {
			t.Errorf("%+v", first)
		}
	})
}
