package grpcmiddleware_test

import (
	"log"
	"time"

	"google.golang.org/grpc"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/grpcmiddleware"
)

func Example() {
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name:   "search",
		Match:  rules.MatchSpec{Path: "/shop.Catalog/{method}"},
		Key:    []string{"service"},
		Limits: []rules.LimitSpec{{Quota: 100, Window: rules.Duration(time.Second)}},
	}}})
	if set == nil {
		log.Fatal(problems)
	}
	callers, problems := identity.New(identity.Spec{}, nil)
	if callers == nil {
		log.Fatal(problems)
	}
	defer callers.Close()

	limits := grpcmiddleware.New(gate.New(
		limit.New(memory.New(nil), nil),
		&gate.Snapshot{Rules: set, Identity: identity.WithCertificate(callers, "service")},
		nil), &grpcmiddleware.Options{PerMessage: true})
	server := grpc.NewServer(
		grpc.UnaryInterceptor(limits.Unary),
		grpc.StreamInterceptor(limits.Stream))
	defer server.Stop()
}
