package rls_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/rls"
)

// noon is when the tests are.
const noon = algo.Ticks(1_800_014_400_000_000)

// newGate returns a gate whose clock stands still.
func newGate(t testing.TB, specs ...rules.RuleSpec) *gate.Gate {
	set, problems := rules.Compile(rules.Spec{Rules: specs})
	if set == nil {
		t.Fatal(problems)
	}
	store := memory.New(&memory.Options{Now: func() algo.Ticks { return noon }})
	return gate.New(limit.New(store, nil), &gate.Snapshot{Rules: set}, nil)
}

// serve serves g until the test ends, and returns the connection of a client.
func serve(t testing.TB, g *gate.Gate, o *rls.Options) (*rls.Server, *grpc.ClientConn) {
	s := rls.New(g, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Close()
		if err := <-served; err != nil {
			t.Error("serve:", err)
		}
	})
	return s, conn
}

// on is a rule for descriptors of the domain d with exactly these keys.
func on(name, descriptor string, quota int64, window time.Duration, key ...string) rules.RuleSpec {
	return rules.RuleSpec{
		Name:   name,
		Match:  rules.MatchSpec{Attributes: map[string]rules.Pattern{"domain": "d", "descriptor": rules.Pattern(descriptor)}},
		Key:    key,
		Limits: []rules.LimitSpec{{Algorithm: "fixed", Quota: quota, Window: rules.Duration(window)}},
	}
}

// d is a descriptor of keys and values in turn.
func d(pairs ...string) *ratelimit.RateLimitDescriptor {
	d := new(ratelimit.RateLimitDescriptor)
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func costing(hits uint64, d *ratelimit.RateLimitDescriptor) *ratelimit.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func limited(quota uint32, unit int32, d *ratelimit.RateLimitDescriptor) *ratelimit.RateLimitDescriptor {
	d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: quota, Unit: typev3.RateLimitUnit(unit)}
	return d
}

func ask(ds ...*ratelimit.RateLimitDescriptor) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "d", Descriptors: ds}
}

// The parts of answers.
func ok(name string, quota, remaining uint32, unit pb.RateLimitResponse_RateLimit_Unit, reset int64) *pb.RateLimitResponse_DescriptorStatus {
	s := over(name, quota, unit, reset)
	s.Code, s.LimitRemaining = pb.RateLimitResponse_OK, remaining
	return s
}

func over(name string, quota uint32, unit pb.RateLimitResponse_RateLimit_Unit, reset int64) *pb.RateLimitResponse_DescriptorStatus {
	return &pb.RateLimitResponse_DescriptorStatus{
		Code:               pb.RateLimitResponse_OVER_LIMIT,
		CurrentLimit:       &pb.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: quota, Unit: unit},
		DurationUntilReset: &durationpb.Duration{Seconds: reset},
	}
}

func unlimited() *pb.RateLimitResponse_DescriptorStatus {
	return &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK, LimitRemaining: 1<<32 - 1}
}

func unmatched() *pb.RateLimitResponse_DescriptorStatus {
	return &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
}

func answers(statuses ...*pb.RateLimitResponse_DescriptorStatus) *pb.RateLimitResponse {
	r := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: statuses}
	for _, s := range statuses {
		r.OverallCode = max(r.OverallCode, s.Code)
	}
	return r
}

const (
	second  = pb.RateLimitResponse_RateLimit_SECOND
	minute  = pb.RateLimitResponse_RateLimit_MINUTE
	hour    = pb.RateLimitResponse_RateLimit_HOUR
	day     = pb.RateLimitResponse_RateLimit_DAY
	week    = pb.RateLimitResponse_RateLimit_WEEK
	month   = pb.RateLimitResponse_RateLimit_MONTH
	year    = pb.RateLimitResponse_RateLimit_YEAR
	nowhere = pb.RateLimitResponse_RateLimit_UNKNOWN
)

// TestShouldRateLimit holds sequences of calls against the answers that they get,
// whole.
func TestShouldRateLimit(t *testing.T) {
	type step struct {
		ask  *pb.RateLimitRequest
		want *pb.RateLimitResponse
	}
	shadow := on("tried", "user", 0, time.Minute, "user")
	shadow.Shadow = true
	exempt := on("cluster", "cluster", 1, time.Minute, "cluster")
	exempt.Overrides = []rules.OverrideSpec{{When: map[string]rules.Pattern{"cluster": "ldap"}, Exempt: true}}
	costly := on("costly", "user", 10, time.Minute, "user")
	costly.Cost = 4
	withHits := func(r *pb.RateLimitRequest, hits uint32) *pb.RateLimitRequest { r.HitsAddend = hits; return r }
	for name, tt := range map[string]struct {
		rules []rules.RuleSpec
		steps []step
	}{
		"until the limit, for each value": {
			rules: []rules.RuleSpec{on("user", "user", 2, time.Minute, "user")},
			steps: []step{
				{ask(d("user", "a")), answers(ok("user", 2, 1, minute, 60))},
				{ask(d("user", "a")), answers(ok("user", 2, 0, minute, 60))},
				{ask(d("user", "a")), answers(over("user", 2, minute, 60))},
				{ask(d("user", "b")), answers(ok("user", 2, 1, minute, 60))},
			},
		},
		"keys in other numbers or another order are another descriptor": {
			rules: []rules.RuleSpec{on("both", "from/to", 1, time.Hour, "from", "to")},
			steps: []step{
				{ask(d("from", "a")), answers(unmatched())},
				{ask(d("from", "a", "to", "b", "x", "y")), answers(unmatched())},
				{ask(d("to", "b", "from", "a")), answers(unmatched())},
				{ask(d("from", "a", "to", "b")), answers(ok("both", 1, 0, hour, 3600))},
				{ask(d("from", "a", "to", "b")), answers(over("both", 1, hour, 3600))},
			},
		},
		"a key that is there twice, by position": {
			rules: []rules.RuleSpec{on("second", "generic_key/generic_key", 1, time.Hour, "entry_2")},
			steps: []step{
				{ask(d("generic_key", "a", "generic_key", "x")), answers(ok("second", 1, 0, hour, 3600))},
				{ask(d("generic_key", "b", "generic_key", "x")), answers(over("second", 1, hour, 3600))},
				{ask(d("generic_key", "a", "generic_key", "y")), answers(ok("second", 1, 0, hour, 3600))},
			},
		},
		"a key with a slash is not two": {
			rules: []rules.RuleSpec{on("two", "a/b", 1, time.Hour), on("one", "a%2Fb", 2, time.Hour)},
			steps: []step{
				{ask(d("a", "1", "b", "2")), answers(ok("two", 1, 0, hour, 3600))},
				{ask(d("a/b", "1")), answers(ok("one", 2, 1, hour, 3600))},
			},
		},
		"another domain": {
			rules: []rules.RuleSpec{on("user", "user", 0, time.Minute, "user")},
			steps: []step{{&pb.RateLimitRequest{Domain: "other", Descriptors: []*ratelimit.RateLimitDescriptor{d("user", "a")}}, answers(unmatched())}},
		},
		"statuses in the order of descriptors; what one denies spends nothing of another": {
			rules: []rules.RuleSpec{on("user", "user", 5, time.Minute, "user"), on("path", "path", 1, time.Second, "path")},
			steps: []step{
				{ask(d("path", "/x"), d("none", ""), d("user", "a")), answers(ok("path", 1, 0, second, 1), unmatched(), ok("user", 5, 4, minute, 60))},
				{ask(d("user", "a"), d("path", "/x")), answers(ok("user", 5, 4, minute, 60), over("path", 1, second, 1))},
				{ask(d("user", "a")), answers(ok("user", 5, 3, minute, 60))},
			},
		},
		"the limit nearest to exhaustion is told": {
			rules: []rules.RuleSpec{on("minutely", "user", 9, time.Minute, "user"), on("hourly", "user", 3, time.Hour)},
			steps: []step{{ask(d("user", "a")), answers(ok("hourly", 3, 2, hour, 3600))}},
		},
		"the cost of the request, of a descriptor, and none at all": {
			rules: []rules.RuleSpec{on("user", "user", 10, time.Minute, "user")},
			steps: []step{
				{withHits(ask(d("user", "a"), costing(2, d("user", "b"))), 3), answers(ok("user", 10, 7, minute, 60), ok("user", 10, 8, minute, 60))},
				{ask(costing(0, d("user", "a"))), answers(ok("user", 10, 7, minute, 60))},
				{ask(costing(7, d("user", "a"))), answers(ok("user", 10, 0, minute, 60))},
				{ask(costing(0, d("user", "a")), d("user", "b")), answers(over("user", 10, minute, 60), ok("user", 10, 8, minute, 60))},
				{ask(d("user", "b")), answers(ok("user", 10, 7, minute, 60))},
			},
		},
		"without a cost it is the rule's own": {
			rules: []rules.RuleSpec{costly},
			steps: []step{
				{ask(d("user", "a")), answers(ok("costly", 10, 6, minute, 60))},
				{ask(costing(1, d("user", "a"))), answers(ok("costly", 10, 5, minute, 60))},
			},
		},
		"a cost that never fits is over the limit, and spends nothing": {
			rules: []rules.RuleSpec{on("user", "user", 10, time.Minute, "user")},
			steps: []step{
				{withHits(ask(d("user", "a")), 11), answers(&pb.RateLimitResponse_DescriptorStatus{
					Code: pb.RateLimitResponse_OVER_LIMIT, LimitRemaining: 10,
					CurrentLimit:       &pb.RateLimitResponse_RateLimit{Name: "user", RequestsPerUnit: 10, Unit: minute},
					DurationUntilReset: &durationpb.Duration{Seconds: 60},
				})},
				{withHits(ask(d("user", "b"), d("none", "")), 1<<32-1), &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OVER_LIMIT, Statuses: []*pb.RateLimitResponse_DescriptorStatus{{
					Code: pb.RateLimitResponse_OVER_LIMIT, LimitRemaining: 10,
					CurrentLimit:       &pb.RateLimitResponse_RateLimit{Name: "user", RequestsPerUnit: 10, Unit: minute},
					DurationUntilReset: &durationpb.Duration{Seconds: 60},
				}, unmatched()}}},
				{ask(costing(1<<64-1, d("none", "x"))), answers(unmatched())},
				{ask(d("user", "a")), answers(ok("user", 10, 9, minute, 60))},
			},
		},
		"a rule in shadow denies nothing and is not told": {
			rules: []rules.RuleSpec{shadow},
			steps: []step{{ask(d("user", "a")), answers(unmatched())}},
		},
		"who is exempt has no limit, and is told so": {
			rules: []rules.RuleSpec{exempt},
			steps: []step{
				{ask(d("cluster", "ldap"), d("cluster", "azure")), answers(unlimited(), ok("cluster", 1, 0, minute, 60))},
				{ask(d("cluster", "ldap")), answers(unlimited())},
			},
		},
		"a limit of 0": {
			rules: []rules.RuleSpec{on("banned", "user", 0, time.Minute, "user")},
			steps: []step{
				{ask(costing(0, d("user", "a"))), answers(over("banned", 0, minute, 60))},
				{ask(d("user", "a")), answers(over("banned", 0, minute, 60))},
			},
		},
		"units, and windows that are none": {
			rules: []rules.RuleSpec{
				on("d", "d", 1, 24*time.Hour), on("w", "w", 1, 7*24*time.Hour), on("m", "m", 1, 30*24*time.Hour), on("y", "y", 1, 365*24*time.Hour),
				on("half", "half", 1, 30*time.Second), on("large", "large", 1<<40, time.Second),
			},
			steps: []step{{ask(d("d", ""), d("half", ""), d("large", "")), answers(ok("d", 1, 0, day, secondsLeft(24*time.Hour)), ok("half", 1, 0, nowhere, 30), ok("large", 1<<32-1, 1<<32-1, second, 1))},
				{ask(d("w", ""), d("m", ""), d("y", "")), answers(
					ok("w", 1, 0, week, secondsLeft(7*24*time.Hour)), ok("m", 1, 0, month, secondsLeft(30*24*time.Hour)), ok("y", 1, 0, year, secondsLeft(365*24*time.Hour)))}},
		},
		"a limit that the request brings along, in place of the rules": {
			rules: []rules.RuleSpec{on("user", "user", 0, time.Minute, "user")},
			steps: []step{
				{ask(limited(2, 1, d("user", "a")), limited(2, 1, d("user", "b"))), answers(ok("limit.override", 2, 1, second, 1), ok("limit.override", 2, 1, second, 1))},
				{ask(limited(2, 1, d("user", "a"))), answers(ok("limit.override", 2, 0, second, 1))},
				{ask(limited(2, 1, d("user", "a"))), answers(over("limit.override", 2, second, 1))},
				{ask(limited(0, 6, d("user", "c")), d("none", "")), answers(over("limit.override", 0, year, 365*24*3600), unmatched())},
			},
		},
		"a long value is one of its own": {
			rules: []rules.RuleSpec{on("user", "user", 1, time.Minute, "user")},
			steps: []step{
				{ask(d("user", strings.Repeat("x", 100_000))), answers(ok("user", 1, 0, minute, 60))},
				{ask(d("user", strings.Repeat("x", 100_001))), answers(ok("user", 1, 0, minute, 60))},
				{ask(d("user", strings.Repeat("x", 100_000))), answers(over("user", 1, minute, 60))},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, conn := serve(t, newGate(t, tt.rules...), &rls.Options{Headers: httpanswer.None})
			client := pb.NewRateLimitServiceClient(conn)
			for i, s := range tt.steps {
				got, err := client.ShouldRateLimit(t.Context(), s.ask)
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if diff := cmp.Diff(s.want, got, protocmp.Transform()); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// secondsLeft returns what is left at noon of a window that is aligned to the epoch.
func secondsLeft(window time.Duration) int64 {
	w := int64(window / time.Second)
	now := int64(noon / 1_000_000)
	return w - now%w
}

func TestHeaders(t *testing.T) {
	for dialect, want := range map[httpanswer.Dialect][2]map[string]string{
		httpanswer.Draft10: {
			{"ratelimit-policy": `"user";q=1;w=60`, "ratelimit": `"user";r=0;t=60`},
			{"ratelimit-policy": `"user";q=1;w=60`, "ratelimit": `"user";r=0;t=60`, "retry-after": "60"},
		},
		httpanswer.Draft03: {
			{"x-ratelimit-limit": "1", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "60"},
			{"x-ratelimit-limit": "1", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "60", "retry-after": "60"},
		},
		httpanswer.Legacy: {
			{"ratelimit-limit": "1", "ratelimit-remaining": "0", "ratelimit-reset": "60"},
			{"ratelimit-limit": "1", "ratelimit-remaining": "0", "ratelimit-reset": "60", "retry-after": "60"},
		},
		httpanswer.None: {},
	} {
		t.Run(dialect.String(), func(t *testing.T) {
			_, conn := serve(t, newGate(t, on("user", "user", 1, time.Minute, "user")), &rls.Options{Headers: dialect})
			client := pb.NewRateLimitServiceClient(conn)
			for i := range want {
				answer, err := client.ShouldRateLimit(t.Context(), ask(d("user", "a")))
				if err != nil {
					t.Fatal(err)
				}
				var got map[string]string
				for _, h := range answer.ResponseHeadersToAdd {
					if got == nil {
						got = map[string]string{}
					}
					got[h.Key] = h.Value
				}
				if diff := cmp.Diff(want[i], got); diff != "" {
					t.Errorf("answer %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// TestBadRequests: what cannot be understood is told by field, value and what is
// allowed, and the next request is answered.
func TestBadRequests(t *testing.T) {
	many := func(n int, d *ratelimit.RateLimitDescriptor) (ds []*ratelimit.RateLimitDescriptor) {
		for range n {
			ds = append(ds, d)
		}
		return ds
	}
	entries := d()
	for range 65 {
		entries.Entries = append(entries.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: "k"})
	}
	for name, tt := range map[string]struct {
		ask  *pb.RateLimitRequest
		code codes.Code
		want string
	}{
		"empty domain":        {&pb.RateLimitRequest{Descriptors: many(1, d("k", "v"))}, codes.InvalidArgument, "domain: is empty; 1 to 256 bytes are allowed"},
		"long domain":         {&pb.RateLimitRequest{Domain: strings.Repeat("d", 257), Descriptors: many(1, d("k", "v"))}, codes.InvalidArgument, "domain: 257 bytes; 1 to 256 are allowed"},
		"no descriptors":      {ask(), codes.InvalidArgument, "descriptors: none; 1 to 1000 are needed"},
		"10,000 descriptors":  {ask(many(10_000, d("k", "v"))...), codes.InvalidArgument, "descriptors: more than 1000; at most 1000 are allowed"},
		"no entries":          {ask(d("k", "v"), d()), codes.InvalidArgument, "descriptors[1].entries: none; 1 to 64 are needed"},
		"65 entries":          {ask(entries), codes.InvalidArgument, "descriptors[0].entries: more than 64; at most 64 are allowed"},
		"empty key":           {ask(d("k", "v", "", "v")), codes.InvalidArgument, "descriptors[0].entries[1].key: 0 bytes; 1 to 256 are allowed"},
		"long key":            {ask(d(strings.Repeat("k", 257), "v")), codes.InvalidArgument, "descriptors[0].entries[0].key: 257 bytes; 1 to 256 are allowed"},
		"unit 99":             {ask(limited(1, 99, d("k", "v"))), codes.InvalidArgument, "descriptors[0].limit.unit: 99; 1 (second) to 6 (year) are allowed"},
		"unit 0":              {ask(limited(1, 0, d("k", "v"))), codes.InvalidArgument, "descriptors[0].limit.unit: 0; 1 (second) to 6 (year) are allowed"},
		"unit -1":             {ask(limited(1, -1, d("k", "v"))), codes.InvalidArgument, "descriptors[0].limit.unit: 18446744073709551615; 1 (second) to 6 (year) are allowed"},
		"5 MB":                {ask(d("k", strings.Repeat("v", 5<<20))), codes.ResourceExhausted, "grpc: received message larger than max (5242901 vs. 1048576)"},
		"just too much":       {ask(d("k", strings.Repeat("v", 1<<20))), codes.ResourceExhausted, "grpc: received message larger than max (1048594 vs. 1048576)"},
		"an unknown method's": {nil, codes.Unimplemented, "unknown method Other for service envoy.service.ratelimit.v3.RateLimitService"},
	} {
		t.Run(name, func(t *testing.T) {
			_, conn := serve(t, newGate(t, on("user", "user", 1, time.Minute, "user")), nil)
			client := pb.NewRateLimitServiceClient(conn)
			var err error
			if tt.ask == nil {
				err = conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/Other", ask(), new(pb.RateLimitResponse))
			} else {
				_, err = client.ShouldRateLimit(t.Context(), tt.ask)
			}
			if s := status.Convert(err); s.Code() != tt.code || s.Message() != tt.want {
				t.Errorf("%v: %s\nwant %v: %s", s.Code(), s.Message(), tt.code, tt.want)
			}
			if got, err := client.ShouldRateLimit(t.Context(), ask(d("user", "a"))); err != nil || got.OverallCode != pb.RateLimitResponse_OK {
				t.Errorf("afterwards: %v, %v", got, err)
			}
		})
	}
}

// failing is a store that never answers.
type failing struct{ limit.Store }

func (failing) Update(context.Context, []string, func(algo.Ticks, []limit.Cell) error) error {
	return &limit.StoreError{Store: "failing", Op: "update", Err: errors.New("connection refused by 10.0.0.5")}
}

func (failing) Ping(context.Context) error { return errors.New("down") }

// TestUndecidedIsAnError: Envoy acts by its own failure mode, and is not told that
// a limit was exceeded, nor where the store is.
func TestUndecidedIsAnError(t *testing.T) {
	rule := on("user", "user", 1, time.Minute, "user")
	rule.OnStoreError = "deny"
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{rule}})
	if set == nil {
		t.Fatal(problems)
	}
	limiter := limit.New(failing{memory.New(nil)}, nil)
	t.Cleanup(func() { limiter.Close() })
	_, conn := serve(t, gate.New(limiter, &gate.Snapshot{Rules: set}, nil), nil)
	_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), ask(d("user", "a")))
	if s := status.Convert(err); s.Code() != codes.Unavailable || s.Message() != "the limits of this request could not be checked" {
		t.Errorf("%v: %s", s.Code(), s.Message())
	}
}
