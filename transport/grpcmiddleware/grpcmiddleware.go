// Package grpcmiddleware limits the calls of a gRPC server, by interceptors.
//
// Rules see a call as the HTTP request that it is: a POST whose path is the full
// method, /package.Service/Method, whose host is the authority and whose headers
// are the metadata. So one rule can hold for gRPC and HTTP alike, and identity is
// found out in the same way: tokens in authorization, API keys, the client's
// address behind trusted proxies and, with identity.WithCertificate, who a
// verified certificate belongs to.
package grpcmiddleware

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// Options configure the interceptors. The zero value is ready to use.
type Options struct {
	// Headers is the dialect of the rate limit fields in the metadata of
	// answers. Defaults to Draft10.
	Headers httpanswer.Dialect
	// PerMessage charges a stream again, as it was when it was opened, for each
	// message from the client but the first.
	PerMessage bool
}

// Limits are the interceptors of one server. They are safe for simultaneous use.
type Limits struct {
	gate     *gate.Gate
	options  Options
	outcomes sync.Pool // of *gate.Outcome
}

// New returns interceptors that let through the calls that g admits. A nil o is
// the zero Options.
//
// A call that is refused gets ResourceExhausted, or Unavailable if the rule
// says 503 or nothing could be decided, with a RetryInfo that says when to try
// again and a QuotaFailure that names the policies. The handler is not called.
// The rate limit fields are in the header metadata of every answer.
func New(g *gate.Gate, o *Options) *Limits {
	l := &Limits{gate: g}
	if o != nil {
		l.options = *o
	}
	return l
}

// Unary is a grpc.UnaryServerInterceptor.
func (l *Limits) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	fields, err := l.admit(newRequest(ctx, info.FullMethod))
	grpc.SetHeader(ctx, fields) // an error would be that the caller is gone
	if err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

// Stream is a grpc.StreamServerInterceptor. A stream is charged when it is
// opened and, with Options.PerMessage, for each further message from the client;
// one that is refused ends what the handler receives with the refusal.
func (l *Limits) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	request := newRequest(stream.Context(), info.FullMethod)
	fields, err := l.admit(request)
	stream.SetHeader(fields)
	if err != nil {
		return err
	}
	if l.options.PerMessage {
		stream = &charged{ServerStream: stream, limits: l, request: request}
	}
	return handler(server, stream)
}

// charged is a stream each message of which is charged.
type charged struct {
	grpc.ServerStream
	limits  *Limits
	request *http.Request
	begun   bool // the first message has come, for which the opening was charged
	refused error
}

// RecvMsg is called by one goroutine at a time, as gRPC has it.
func (c *charged) RecvMsg(m any) error {
	if c.refused != nil {
		return c.refused
	}
	if err := c.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if !c.begun {
		c.begun = true
		return nil
	}
	_, c.refused = c.limits.admit(c.request)
	return c.refused
}

// admit decides r. The error is the status to refuse it with.
func (l *Limits) admit(r *http.Request) (metadata.MD, error) {
	out, _ := l.outcomes.Get().(*gate.Outcome)
	if out == nil {
		out = new(gate.Outcome)
	}
	defer l.outcomes.Put(out)

	l.gate.HTTP(r, out)
	h := make(http.Header, 2)
	httpanswer.SetHeaders(h, l.options.Headers, out)
	if out.Allowed {
		return toMetadata(h), nil
	}
	if err := r.Context().Err(); err != nil { // nobody is there to be refused
		return nil, status.FromContextError(err).Err()
	}
	httpanswer.SetRetryAfter(h, out)
	return toMetadata(h), refusal(out)
}

// refusal returns the status that tells why out is not Allowed.
func refusal(out *gate.Outcome) error {
	code := codes.Unavailable
	if out.Status == http.StatusTooManyRequests {
		code = codes.ResourceExhausted
	}
	problem := httpanswer.Refusal(out)
	s, err := status.New(code, problem.Detail).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(out.RetryAfter)})
	if err != nil { // only an OK status has no details
		panic(err)
	}
	if len(problem.ViolatedPolicies) == 0 {
		return s.Err()
	}
	quota := new(errdetails.QuotaFailure)
	for _, policy := range problem.ViolatedPolicies {
		quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: policy, Description: problem.Title})
	}
	if s, err = s.WithDetails(quota); err != nil {
		panic(err)
	}
	return s.Err()
}

// newRequest returns the call of method in ctx as an HTTP request. It has no body.
func newRequest(ctx context.Context, method string) *http.Request {
	md, _ := metadata.FromIncomingContext(ctx)
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: method}, RequestURI: method,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: make(http.Header, len(md)), Body: http.NoBody,
	}).WithContext(ctx)
	for name, values := range md {
		switch {
		case name == ":authority" && len(values) > 0:
			r.Host = values[0]
		case strings.HasPrefix(name, ":") || strings.HasSuffix(name, "-bin"): // no header, or no text
		default:
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if p, ok := peer.FromContext(ctx); ok {
		if p.Addr != nil {
			r.RemoteAddr = p.Addr.String()
		}
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	return r
}

// toMetadata returns h with the names that gRPC has for them.
func toMetadata(h http.Header) metadata.MD {
	md := make(metadata.MD, len(h))
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	return md
}
