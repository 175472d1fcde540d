package peers

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/transport/rest"
)

// floorVariable makes this test binary one of the floors, on the address it holds.
const floorVariable = "STINT_BENCH_FLOOR"

// startFloor returns what starts a floor, a process of its own.
func startFloor(name string) func(t *testing.T, quota int64) running {
	return func(t *testing.T, _ int64) running {
		address := free(t)
		return running{address: address, server: servertest.StartServer(t, "floor", address, func() *exec.Cmd {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), floorVariable+"="+name+" "+address)
			return c
		})}
	}
}

// serveFloor serves if this process is a floor.
func serveFloor() bool {
	name, address, is := cut(os.Getenv(floorVariable))
	if !is {
		return false
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	if name == "grpc" {
		server := grpc.NewServer()
		pb.RegisterRateLimitServiceServer(server, emptyRLS{})
		panic(server.Serve(l))
	}
	panic(http.Serve(l, http.HandlerFunc(emptyREST)))
}

// emptyRLS is the least that answers Envoy's protocol: the generated code reads and
// writes, and nothing is decided.
type emptyRLS struct {
	pb.UnimplementedRateLimitServiceServer
}

func (emptyRLS) ShouldRateLimit(_ context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	statuses := make([]*pb.RateLimitResponse_DescriptorStatus, len(r.Descriptors))
	for i := range statuses {
		statuses[i] = &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: statuses}, nil
}

// emptyREST is the least that answers the API: it reads the same JSON, decides
// nothing, and writes the same JSON.
func emptyREST(w http.ResponseWriter, r *http.Request) {
	var ask rest.Ask
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := rest.Answer{Allowed: true, Decisions: make([]rest.Decision, len(ask.Descriptors))}
	for i := range answer.Decisions {
		answer.Decisions[i] = rest.Decision{
			Descriptor: i, Rule: "clients", Policy: "clients", Allowed: true,
			Limit: plenty, Remaining: plenty - 1, ResetAfterMS: 1,
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}
