package rls_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/telemetry"
	"github.com/stint-dev/stint/transport/rls"
)

// BenchmarkShouldRateLimit puts the same calls on the service, in local mode and with
// the metrics and header fields that stint serve has, and
// on an empty handler: one that has the generated code read the request, decides
// nothing, and answers OK for each descriptor. Both are in one server process, of
// which the CPU time is reported, in seconds for a million descriptors. The client
// sends what was encoded before, over 4 connections, from 32 goroutines.
func BenchmarkShouldRateLimit(b *testing.B) {
	server := startServer(b)
	for _, descriptors := range []int{1, 100} {
		for _, name := range []string{"empty", "stint"} {
			b.Run(fmt.Sprintf("%s/%d", name, descriptors), func(b *testing.B) {
				server.load(b, name, descriptors)
			})
		}
	}
}

// serverVariable makes this test binary the server of a benchmark.
const serverVariable = "STINT_RLS_BENCH_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		serveBench()
		return
	}
	os.Exit(m.Run())
}

// empty is the least that answers the protocol.
type empty struct {
	pb.UnimplementedRateLimitServiceServer
}

func (empty) ShouldRateLimit(_ context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	statuses := make([]*pb.RateLimitResponse_DescriptorStatus, len(r.Descriptors))
	for i := range statuses {
		statuses[i] = &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: statuses}, nil
}

// serveBench serves until its input ends, and prints where.
func serveBench() {
	listeners := make([]net.Listener, 2)
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		listeners[i] = l
	}
	floor := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(floor, empty{})
	go floor.Serve(listeners[0])

	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name:   "clients",
		Mode:   "local",
		Match:  rules.MatchSpec{Attributes: map[string]rules.Pattern{"domain": "bench", "descriptor": "client"}},
		Key:    []string{"client"},
		Limits: []rules.LimitSpec{{Quota: 1_000_000_000, Window: rules.Duration(time.Hour)}},
	}}})
	if set == nil {
		panic(problems)
	}
	metrics := telemetry.NewMetrics("bench")
	metrics.Loaded(set)
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set}, &gate.Options{Observer: metrics})
	go rls.New(g, &rls.Options{Observe: metrics.GRPC("grpc")}).Serve(listeners[1])
	fmt.Println(listeners[0].Addr(), listeners[1].Addr())
	bufio.NewReader(os.Stdin).ReadByte()
}

type benchServer struct {
	pid       int
	addresses map[string]string
}

func startServer(b *testing.B) *benchServer {
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stdin.Close(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	found := strings.Fields(line)
	return &benchServer{cmd.Process.Pid, map[string]string{"empty": found[0], "stint": found[1]}}
}

// cpu is the CPU time that the server has used.
func (s *benchServer) cpu(b *testing.B) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		b.Skip("needs Linux: ", err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	words := strings.Fields(after)
	user, _ := strconv.Atoi(words[11])
	system, _ := strconv.Atoi(words[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func (s *benchServer) load(b *testing.B, name string, descriptors int) {
	const connections, callers, keys = 4, 32, 10_000
	conns := make([]*grpc.ClientConn, connections)
	for i := range conns {
		c, err := grpc.NewClient(s.addresses[name], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	messages := make([][]byte, 256)
	for i := range messages {
		r := &pb.RateLimitRequest{Domain: "bench"}
		for j := range descriptors {
			r.Descriptors = append(r.Descriptors, &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{
				{Key: "client", Value: fmt.Sprintf("client-%06d", (i*descriptors+j)*7919%keys)},
			}})
		}
		messages[i], _ = proto.Marshal(r)
	}
	var next, wrong atomic.Int64
	b.SetParallelism(callers / 2)
	before, began := s.cpu(b), time.Now()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		conn := conns[int(next.Add(1))%connections]
		for p.Next() {
			var answer mem.BufferSlice
			err := conn.Invoke(b.Context(), pb.RateLimitService_ShouldRateLimit_FullMethodName, messages[next.Add(1)%int64(len(messages))], &answer, grpc.ForceCodecV2(asIs{}))
			// The first field of every answer is the overall code: 1, OK.
			if head := answer.Materialize(); err != nil || len(head) < 2 || head[0] != 8 || head[1] != 1 {
				wrong.Add(1)
			}
			answer.Free()
		}
	})
	b.StopTimer()
	if n := wrong.Load(); n > 0 {
		b.Errorf("%d of %d calls were not answered OK", n, b.N)
	}
	decisions := float64(b.N) * float64(descriptors)
	b.ReportMetric((s.cpu(b)-before).Seconds()/decisions*1e6, "server-cpu-s/1M")
	b.ReportMetric(decisions/time.Since(began).Seconds(), "decisions/s")
}

// asIs is a codec for messages that are encoded already.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (asIs) Unmarshal(data mem.BufferSlice, v any) error {
	data.Ref()
	*v.(*mem.BufferSlice) = data
	return nil
}
