package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stint-dev/stint/server"
)

// imported translates one file of envoyproxy/ratelimit by the command, and returns
// its exit code, the rules file and what it says beside it.
func imported(t *testing.T, yaml string) (code int, rules, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ratelimit.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, err bytes.Buffer
	code = run(t.Context(), []string{"import", "envoy-ratelimit", file}, streams{strings.NewReader(""), &out, &err})
	return code, out.String(), strings.ReplaceAll(err.String(), file, "ratelimit.yaml")
}

// serveGRPC serves a rules file until the test ends, and returns a client of its
// rate limit service.
func serveGRPC(t *testing.T, rules string) pb.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(startGRPC(t, rules), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewRateLimitServiceClient(conn)
}

// startGRPC serves a rules file until the test ends, and returns where.
func startGRPC(t *testing.T, rules string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stint.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	addresses, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, server.Options{
			Config: file, Set: []string{"listen.grpc=127.0.0.1:0", "listen.api=off"}, Log: io.Discard,
			Stores: stores, Transports: transports,
			Started: func(a map[string]net.Addr) { addresses <- a["grpc"].String() },
		})
	}()
	t.Cleanup(stop)
	select {
	case address := <-addresses:
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return address
	case err := <-ended:
		t.Fatalf("%v\n%s", err, rules)
		return ""
	}
}

// TestImportedExamples runs configurations like those that the manual of
// envoyproxy/ratelimit explains, through the command, a process and gRPC, and holds
// the answers against what that manual says.
func TestImportedExamples(t *testing.T) {
	// A call is descriptors, each "key=value key=value", and the codes and what
	// remains that they get: OK, OVER and ANY (no limit is named, nothing remains)
	// and MAX (unlimited).
	type call struct {
		descriptors []string
		want        string
		times       int
	}
	for name, tt := range map[string]struct {
		yaml  string
		calls []call
	}{
		"two values of one key": {`
domain: db
descriptors:
  - {key: database, value: users, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: database, value: default, rate_limit: {unit: hour, requests_per_unit: 1}}
`, []call{
			{[]string{"database=users"}, "OK 1", 1},
			{[]string{"database=default"}, "OK 0", 1},
			{[]string{"database=default"}, "OVER 0", 1},
			{[]string{"database=users"}, "OK 0", 1},
			{[]string{"database=users"}, "OVER 0", 1},
			{[]string{"database=other"}, "ANY", 3},
		}},
		"nested, and a limit for every value": {`
domain: mail
descriptors:
  - key: kind
    value: marketing
    descriptors:
      - {key: to, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: to, rate_limit: {unit: day, requests_per_unit: 3}}
`, []call{
			{[]string{"kind=marketing to=1", "to=1"}, "OK 1, OK 2", 1},
			{[]string{"kind=marketing to=2", "to=2"}, "OK 1, OK 2", 1},
			{[]string{"kind=marketing to=1", "to=1"}, "OK 0, OK 1", 1},
			{[]string{"kind=marketing to=1", "to=1"}, "OVER 0, OK 1", 1},
			{[]string{"kind=billing to=1", "to=1"}, "ANY, OK 0", 1},
			{[]string{"kind=billing to=1", "to=1"}, "ANY, OVER 0", 1},
		}},
		"the most specific wins, in any order": {`
domain: edge
descriptors:
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: hour, requests_per_unit: 0}}
`, []call{
			{[]string{"remote_address=50.0.0.1"}, "OK 0", 1},
			{[]string{"remote_address=50.0.0.1"}, "OVER 0", 1},
			{[]string{"remote_address=50.0.0.2"}, "OK 0", 1},
			{[]string{"remote_address=50.0.0.5"}, "OVER 0", 2},
		}},
		"as many levels as entries": {`
domain: levels
descriptors:
  - {key: key, value: value, rate_limit: {unit: hour, requests_per_unit: 0}}
  - key: outer
    value: value
    descriptors: [{key: inner, rate_limit: {unit: hour, requests_per_unit: 0}}]
`, []call{
			{[]string{"key=value inner=x"}, "ANY", 1},
			{[]string{"key=value"}, "OVER 0", 1},
			{[]string{"outer=value"}, "ANY", 1},
			{[]string{"outer=value inner=x"}, "OVER 0", 1},
		}},
		"unlimited, and what is not there": {`
domain: internal
descriptors:
  - {key: ldap, rate_limit: {unlimited: true}}
  - {key: azure, rate_limit: {unit: minute, requests_per_unit: 100}}
`, []call{{[]string{"ldap=x", "other=x", "azure=x"}, "MAX, ANY, OK 99", 1}}},
		"shadow for one value": {`
domain: soft
descriptors:
  - key: service
    descriptors:
      - {key: user, value: a, rate_limit: {unit: hour, requests_per_unit: 1}, shadow_mode: true}
      - {key: user, value: b, rate_limit: {unit: hour, requests_per_unit: 1}}
`, []call{
			{[]string{"service=auth user=a"}, "ANY", 4},
			{[]string{"service=auth user=b"}, "OK 0", 1},
			{[]string{"service=auth user=b"}, "OVER 0", 1},
			{[]string{"service=other user=b"}, "OK 0", 1},
		}},
		"one limit in place of another": {`
domain: replacing
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - {key: user, value: ann, rate_limit: {name: specific, unit: hour, requests_per_unit: 1}}
  - key: key_2
    value: value_2
    descriptors:
      - {key: user, value: ann, rate_limit: {replaces: [{name: specific}], unit: hour, requests_per_unit: 2}}
`, []call{
			{[]string{"key_1=value_1 user=ann", "key_2=value_2 user=ann"}, "ANY, OK 1", 1},
			{[]string{"key_2=value_2 user=ann", "key_1=value_1 user=ann"}, "OK 0, ANY", 1},
			{[]string{"key_1=value_1 user=ann"}, "OK 0", 1},
			{[]string{"key_1=value_1 user=ann"}, "OVER 0", 1},
			{[]string{"key_2=value_2 user=ann"}, "OVER 0", 1},
		}},
		"wildcards, each value on its own": {`
domain: wild
descriptors:
  - {key: key, value: value*, rate_limit: {unit: hour, requests_per_unit: 1}}
`, []call{
			{[]string{"key=value_1"}, "OK 0", 1},
			{[]string{"key=value_2"}, "OK 0", 1},
			{[]string{"key=value_1"}, "OVER 0", 1},
			{[]string{"key=other"}, "ANY", 1},
		}},
		"a threshold that is shared": {`
domain: shared
descriptors:
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: alone, value: files/*, share_threshold: false, rate_limit: {unit: hour, requests_per_unit: 1}}
`, []call{
			{[]string{"files=files/a.pdf"}, "OK 1", 1},
			{[]string{"files=files/b.csv"}, "OK 0", 1},
			{[]string{"files=files/c.txt"}, "OVER 0", 1},
			{[]string{"alone=files/a.pdf"}, "OK 0", 1},
			{[]string{"alone=files/b.csv"}, "OK 0", 1},
			{[]string{"alone=files/a.pdf"}, "OVER 0", 1},
		}},
		"what is about metrics changes nothing": {`
domain: metered
descriptors:
  - {key: key, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: route
    value_to_metric: true
    descriptors: [{key: user, rate_limit: {unit: week, requests_per_unit: 7}}]
`, []call{{[]string{"key=a", "key=b", "route=r user=u"}, "OK 0, OK 0, OK 6", 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			code, rules, said := imported(t, tt.yaml)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, said)
			}
			client := serveGRPC(t, rules)
			domain, _, _ := strings.Cut(strings.TrimPrefix(tt.yaml, "\ndomain: "), "\n")
			for i, c := range tt.calls {
				for range c.times {
					r := &pb.RateLimitRequest{Domain: domain}
					for _, text := range c.descriptors {
						var d ratelimit.RateLimitDescriptor
						for pair := range strings.FieldsSeq(text) {
							key, value, _ := strings.Cut(pair, "=")
							d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
						}
						r.Descriptors = append(r.Descriptors, &d)
					}
					answer, err := client.ShouldRateLimit(t.Context(), r)
					if err != nil {
						t.Fatal(err)
					}
					if got := brief(answer); got != c.want {
						t.Errorf("call %d, %q: %s; want %s\n%s", i, c.descriptors, got, c.want, rules)
					}
				}
			}
		})
	}
}

func brief(answer *pb.RateLimitResponse) string {
	var all []string
	overall := pb.RateLimitResponse_OK
	for _, s := range answer.Statuses {
		overall = max(overall, s.Code)
		switch {
		case s.CurrentLimit == nil && s.LimitRemaining == 1<<32-1:
			all = append(all, "MAX")
		case s.CurrentLimit == nil:
			all = append(all, "ANY")
		case s.Code == pb.RateLimitResponse_OVER_LIMIT:
			all = append(all, fmt.Sprintf("OVER %d", s.LimitRemaining))
		default:
			all = append(all, fmt.Sprintf("OK %d", s.LimitRemaining))
		}
	}
	if answer.OverallCode != overall {
		return fmt.Sprintf("overall %v: %v", answer.OverallCode, all)
	}
	return strings.Join(all, ", ")
}

// TestImportTells: what has no place in a rules file is listed, with its line, and
// told by the exit code.
func TestImportTells(t *testing.T) {
	for name, tt := range map[string]struct {
		yaml string
		code int
		want string // among what is said
	}{
		"metrics only":        {"domain: d\ndescriptors:\n- {key: a, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n", 0, "ratelimit.yaml:3:29: warning: descriptors[0].detailed_metric: metrics have no keys"},
		"nothing applies":     {"domain: d\ndescriptors:\n- {key: a, value: a*, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: a, value: ab*, rate_limit: {unit: day, requests_per_unit: 1}}\n", 0, "ratelimit.yaml:4:1: warning: descriptors[1]: never applies: the descriptor on line 3 comes first"},
		"no limits":           {"domain: d\n", 0, ""},
		"a star in between":   {"domain: d\ndescriptors:\n- {key: a, value: a*b, rate_limit: {unit: day, requests_per_unit: 1}}\n", 1, `ratelimit.yaml:3:3: descriptors[0].value: "a*b" has a * that is not at its end`},
		"a star in a key":     {"domain: d\ndescriptors:\n- {key: a*, rate_limit: {unit: day, requests_per_unit: 1}}\n", 1, `ratelimit.yaml:3:3: descriptors[0].key: "a*" has a *`},
		"a star in a domain":  {"domain: d*\n", 1, `ratelimit.yaml:1:1: domain: "d*" has a *`},
		"not YAML":            {"domain: [", 2, "ratelimit.yaml:1:1: is not YAML"},
		"empty":               {"", 2, "ratelimit.yaml:1:1: is empty"},
		"no domain":           {"descriptors: []", 2, "ratelimit.yaml:1:1: domain: is missing"},
		"an unknown field":    {"domain: d\ndescriptors:\n- {key: a, ratelimit: {}}\n", 2, "ratelimit.yaml:3:12: descriptors[0].ratelimit: unknown field; allowed here: descriptors, detailed_metric, key, "},
		"an unknown unit":     {"domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: fortnight}}\n", 2, `descriptors[0].rate_limit.unit: "fortnight" is not a unit; second, minute, `},
		"too many requests":   {"domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}\n", 2, `requests_per_unit: "4294967296" is out of bounds; 0 to 4294967295 is allowed`},
		"unlimited, and not":  {"domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: day, unlimited: true}}\n", 2, "rate_limit.unit: is given, and the limit is unlimited"},
		"the same twice":      {"domain: d\ndescriptors:\n- {key: a, value: b}\n- {key: a, value: b}\n", 2, "ratelimit.yaml:4:1: descriptors[1]: asks for the same key and value"},
		"no key":              {"domain: d\ndescriptors:\n- {value: b}\n", 2, "descriptors[0].key: is missing or empty"},
		"shared, no wildcard": {"domain: d\ndescriptors:\n- {key: a, value: b, share_threshold: true}\n", 2, "share_threshold: is only for a value that ends with *"},
	} {
		t.Run(name, func(t *testing.T) {
			code, rules, said := imported(t, tt.yaml)
			if code != tt.code || !strings.Contains(said, tt.want) {
				t.Errorf("exit code %d, want %d:\n%s", code, tt.code, said)
			}
			if (rules == "") != (code == exitConfig) {
				t.Errorf("prints %q", rules)
			}
		})
	}
}
