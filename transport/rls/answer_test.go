package rls

import (
	"context"
	"fmt"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// BenchmarkAnswer is what the service adds to gRPC: from a message to an answer, in
// local mode.
func BenchmarkAnswer(b *testing.B) {
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name:   "clients",
		Mode:   "local",
		Match:  rules.MatchSpec{Attributes: map[string]rules.Pattern{"domain": "bench", "descriptor": "client"}},
		Key:    []string{"client"},
		Limits: []rules.LimitSpec{{Quota: 1_000_000_000, Window: rules.Duration(time.Hour)}},
	}}})
	if set == nil {
		b.Fatal(problems)
	}
	s := newService(gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set}, nil), nil)
	for _, n := range []int{1, 100} {
		r := &pb.RateLimitRequest{Domain: "bench"}
		for i := range n {
			r.Descriptors = append(r.Descriptors, &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client", Value: fmt.Sprintf("client-%06d", i)}}})
		}
		message, err := proto.Marshal(r)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.answer(context.Background(), string(message), func([]byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
