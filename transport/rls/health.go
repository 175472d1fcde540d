package rls

import (
	"context"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// lookEvery is how often readiness is looked at for those who watch it, and
// readyTime how long a look may take.
const (
	lookEvery = time.Second
	readyTime = time.Second
)

// health answers health checks by the readiness of the process.
type health struct {
	healthpb.UnimplementedHealthServer
	ready   func(ctx context.Context) error
	closing <-chan struct{}
}

func newHealth(ready func(ctx context.Context) error, closing <-chan struct{}) *health {
	if ready == nil {
		ready = func(context.Context) error { return nil }
	}
	return &health{ready: ready, closing: closing}
}

// knows reports whether a service is served here. The last name is what clients of
// the reference implementation ask for.
func (*health) knows(service string) bool {
	return service == "" || service == pb.RateLimitService_ServiceDesc.ServiceName || service == "ratelimit"
}

func (h *health) status(ctx context.Context) healthpb.HealthCheckResponse_ServingStatus {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if h.ready(ctx) != nil {
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}

// Check implements grpc.health.v1.Health.
func (h *health) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if !h.knows(r.Service) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &healthpb.HealthCheckResponse{Status: h.status(ctx)}, nil
}

// Watch implements grpc.health.v1.Health. It ends when the server shuts down.
func (h *health) Watch(r *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		now := healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		if h.knows(r.Service) {
			now = h.status(stream.Context())
		}
		if now != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-h.closing:
			return stream.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING})
		}
	}
}
