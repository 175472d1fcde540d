// Package rls answers Envoy: its rate limit service, version 3, over gRPC, with
// health checks and reflection, and over HTTP and JSON.
//
// Each descriptor of a request is looked up in the rules on its own, and has a
// status of its own in the answer. All of them are charged, or none.
//
// Its callers are trusted. The entries, costs and limits that they give are
// believed, so a server that lets anybody reach it lets anybody spend anybody's
// quota.
package rls

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// Options configure the service. The zero value is ready to use.
type Options struct {
	// Headers is the dialect of the rate limit fields that Envoy is asked to add
	// to its answers. Defaults to Draft10.
	Headers httpanswer.Dialect
	// Ready says what health checks are told: nil is serving. Defaults to always.
	Ready func(ctx context.Context) error
	// Observe, if set, is told the gRPC code and the time of each answer.
	Observe func(code string, took time.Duration)
	// Logger is told what only its operator can mend. Defaults to none.
	Logger *slog.Logger
	// MaxAge is how long a connection lasts, and Grace how long its streams may
	// go on then before they are cut off. Default to 30m and 10s.
	MaxAge, Grace time.Duration
}

// Bounds of what a client may hold.
const (
	maxConnections = 1024 // of all clients
	maxStreams     = 1000 // of a connection
	maxHeader      = 16 << 10
)

// Server is the service on gRPC. It is safe for simultaneous use.
type Server struct {
	grpc    *grpc.Server
	service *service
	closing chan struct{}
	once    sync.Once
}

// end tells those who watch that the server shuts down.
func (s *Server) end() { s.once.Do(func() { close(s.closing) }) }

// New returns a Server over g. A nil o is the zero Options.
func New(g *gate.Gate, o *Options) *Server {
	var opts Options
	if o != nil {
		opts = *o
	}
	s := &Server{service: newService(g, &opts), closing: make(chan struct{})}
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     15 * time.Minute,
			MaxConnectionAge:      cmp.Or(opts.MaxAge, 30*time.Minute),
			MaxConnectionAgeGrace: cmp.Or(opts.Grace, 10*time.Second),
			Time:                  time.Minute,
			Timeout:               10 * time.Second,
		}),
	)
	s.grpc.RegisterService(&description, s)
	healthpb.RegisterHealthServer(s.grpc, newHealth(opts.Ready, s.closing))
	reflection.Register(s.grpc)
	return s
}

// Serve answers what arrives at l until the Server is shut down or l fails.
func (s *Server) Serve(l net.Listener) error {
	return s.grpc.Serve(netutil.LimitListener(l, maxConnections))
}

// Shutdown accepts nothing more and returns once what has begun is answered, or
// with the error of ctx when that ends first.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	done := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close cuts off what has begun.
func (s *Server) Close() error {
	s.end()
	s.grpc.Stop()
	return nil
}

// description is that of the protocol, with a handler that gets messages as they
// are on the wire.
var description = grpc.ServiceDesc{
	ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
	Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
}

func shouldRateLimit(s any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var in request
	if err := decode(&in); err != nil {
		return nil, err
	}
	out := new(response)
	err := s.(*Server).service.answer(ctx, in.message, func(message []byte) error {
		out.data = copied(message)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
