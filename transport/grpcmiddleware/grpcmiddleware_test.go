package grpcmiddleware_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/grpcmiddleware"
)

// service answers every call, and every message of a stream.
type service struct {
	testpb.UnimplementedTestServiceServer
	received chan error // how the last message of a stream was received
}

func (*service) UnaryCall(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return &testpb.SimpleResponse{Username: "hello"}, nil
}

func (*service) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, nil
}

func (s *service) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			_, again := stream.Recv() // a refused stream stays refused
			s.received <- again
			return err
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

const (
	unary  = "/grpc.testing.TestService/UnaryCall"
	duplex = "/grpc.testing.TestService/FullDuplexCall"
)

func newGate(t testing.TB, s limit.Store, spec identity.Spec, specs ...rules.RuleSpec) *gate.Gate {
	t.Helper()
	set, problems := rules.Compile(rules.Spec{Rules: specs})
	if set == nil {
		t.Fatal(problems)
	}
	callers, problems := identity.New(spec, nil)
	if callers == nil {
		t.Fatal(problems)
	}
	t.Cleanup(callers.Close)
	limiter := limit.New(s, &limit.Options{Timeout: 100 * time.Millisecond})
	t.Cleanup(func() { limiter.Close() })
	return gate.New(limiter, &gate.Snapshot{Rules: set, Identity: identity.WithCertificate(callers, "certificate")}, nil)
}

// rule admits quota calls an hour of method, by key.
func rule(quota int64, method string, key ...string) rules.RuleSpec {
	return rules.RuleSpec{Name: "calls", Match: rules.MatchSpec{Path: method, Methods: []string{"POST"}}, Key: key, Limits: []rules.LimitSpec{{Quota: quota, Window: rules.Duration(time.Hour)}}}
}

// serve serves behind limits, and returns the service and a connection to it.
func serve(t testing.TB, limits *grpcmiddleware.Limits, server credentials.TransportCredentials, client credentials.TransportCredentials) (*service, testpb.TestServiceClient) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary), grpc.StreamInterceptor(limits.Stream), grpc.Creds(server))
	s := &service{received: make(chan error, 1)}
	testpb.RegisterTestServiceServer(g, s)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(client))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, testpb.NewTestServiceClient(c)
}

func plain(t testing.TB, g *gate.Gate, o *grpcmiddleware.Options) (*service, testpb.TestServiceClient) {
	return serve(t, grpcmiddleware.New(g, o), insecure.NewCredentials(), insecure.NewCredentials())
}

// field returns the one value of a field of metadata.
func field(md metadata.MD, name string) string {
	if values := md.Get(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// refused holds err against a refusal by the policy calls.
func refused(t *testing.T, err error) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted || s.Message() != `Policy "calls" allows 1 in 1h, and this request would exceed that. Try again in 1h.` {
		t.Errorf("%v", err)
	}
	var retry time.Duration
	var violated []string
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d.RetryDelay.AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range d.Violations {
				violated = append(violated, v.Subject)
			}
		}
	}
	if retry <= 59*time.Minute || retry > time.Hour || !cmp.Equal(violated, []string{"calls"}) {
		t.Errorf("again in %v, violated %v", retry, violated)
	}
}

func TestUnary(t *testing.T) {
	_, client := plain(t, newGate(t, memory.New(nil), identity.Spec{}, rule(1, unary, "ip")), nil)
	var header, trailer metadata.MD
	answer, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{}, grpc.Header(&header))
	if err != nil || answer.Username != "hello" || field(header, "ratelimit") != `"calls";r=0;t=3600` || field(header, "ratelimit-policy") != `"calls";q=1;w=3600` || field(header, "retry-after") != "" {
		t.Errorf("allowed: %v, %v, %v", answer, err, header)
	}
	_, err = client.UnaryCall(t.Context(), &testpb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	refused(t, err)
	if field(header, "ratelimit") != `"calls";r=0;t=3600` || field(header, "retry-after") != "3600" {
		t.Errorf("denied: header %v, trailer %v", header, trailer)
	}
	if _, err = client.EmptyCall(t.Context(), &testpb.Empty{}, grpc.Header(&header)); err != nil || header.Get("ratelimit") != nil {
		t.Errorf("a method without a rule: %v, %v", err, header)
	}
}

func TestStream(t *testing.T) {
	_, client := plain(t, newGate(t, memory.New(nil), identity.Spec{}, rule(1, duplex, "ip")), nil)
	stream, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Errorf("a message of an open stream: %v", err)
		}
	}
	if header, err := stream.Header(); err != nil || field(header, "ratelimit") != `"calls";r=0;t=3600` {
		t.Errorf("%v, %v", header, err)
	}
	stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	stream, err = client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	refused(t, err)
}

func TestStreamPerMessage(t *testing.T) {
	s, client := plain(t, newGate(t, memory.New(nil), identity.Spec{}, rule(3, duplex, "ip")), &grpcmiddleware.Options{PerMessage: true})
	stream, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		_, err := stream.Recv()
		if (err == nil) != (i < 3) || i == 3 && status.Code(err) != codes.ResourceExhausted {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if err := <-s.received; status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a handler that goes on receives: %v", err)
	}
}

// TestIdentity: who calls is found out as over HTTP.
func TestIdentity(t *testing.T) {
	spec := identity.Spec{
		TrustedProxies: []string{"127.0.0.1"},
		Attributes: map[string][]identity.SourceSpec{
			"key":  {{APIKey: &identity.APIKeySpec{Unverified: true}}},
			"team": {{Header: &identity.NamedSpec{Name: "X-Team"}}},
		},
	}
	for attribute, name := range map[string]string{"ip": "x-forwarded-for", "key": "x-api-key", "team": "x-team"} {
		_, client := plain(t, newGate(t, memory.New(nil), spec, rule(1, unary, attribute)), nil)
		var got []codes.Code
		for _, value := range []string{"203.0.113.1", "203.0.113.1", "203.0.113.2"} {
			_, err := client.UnaryCall(metadata.AppendToOutgoingContext(t.Context(), name, value, "raw-bin", "\x00"), &testpb.SimpleRequest{})
			got = append(got, status.Code(err))
		}
		if diff := cmp.Diff([]codes.Code{codes.OK, codes.ResourceExhausted, codes.OK}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", attribute, diff)
		}
	}
}

// TestCertificate: over mutual TLS, the caller is who its certificate says.
func TestCertificate(t *testing.T) {
	certFile, keyFile := servertest.Certificate(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	server := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven})
	match := rule(1, unary, "certificate")
	match.Match.Attributes = map[string]rules.Pattern{"certificate": "billing"}
	g := newGate(t, memory.New(nil), identity.Spec{}, match)
	for _, tt := range []struct {
		certificates []tls.Certificate
		want         codes.Code // of a second call
	}{
		{[]tls.Certificate{clientOf(t, pair, "billing")}, codes.ResourceExhausted},
		{[]tls.Certificate{clientOf(t, pair, "reports")}, codes.OK},
		{nil, codes.OK},
	} {
		_, client := serve(t, grpcmiddleware.New(g, nil), server, credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: tt.certificates, ServerName: "127.0.0.1"}))
		client.UnaryCall(t.Context(), &testpb.SimpleRequest{})
		if _, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{}); status.Code(err) != tt.want {
			t.Errorf("%d certificates: %v, want %v", len(tt.certificates), err, tt.want)
		}
	}
}

// clientOf makes a certificate for name, signed by issuer.
func clientOf(t testing.TB, issuer tls.Certificate, name string) tls.Certificate {
	t.Helper()
	parent, err := x509.ParseCertificate(issuer.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, issuer.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestStoreFails: nothing decided is Unavailable, and never ResourceExhausted.
func TestStoreFails(t *testing.T) {
	spec := rule(1, unary, "ip")
	spec.OnStoreError = "deny"
	_, client := plain(t, newGate(t, broken{}, identity.Spec{}, spec), nil)
	_, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{})
	s := status.Convert(err)
	if s.Code() != codes.Unavailable || s.Message() != "The limits of this request could not be checked. Try again in 1s." || len(s.Details()) != 1 {
		t.Errorf("%v %v", err, s.Details())
	}
}

// TestCallerGoesAway: whoever gives up in a queue is not told of a limit.
func TestCallerGoesAway(t *testing.T) {
	spec := rule(1, unary, "ip")
	spec.Queue = &rules.QueueSpec{MaxWait: rules.Duration(time.Hour), MaxQueue: 1}
	_, client := plain(t, newGate(t, memory.New(nil), identity.Spec{}, spec), nil)
	client.UnaryCall(t.Context(), &testpb.SimpleRequest{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.UnaryCall(ctx, &testpb.SimpleRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

// broken is a store that cannot answer.
type broken struct{ limit.Store }

func (broken) Update(context.Context, []string, func(algo.Ticks, []limit.Cell) error) error {
	return errors.New("down")
}
func (broken) Ping(context.Context) error { return errors.New("down") }
