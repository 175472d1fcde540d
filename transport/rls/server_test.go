package rls_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/rls"
)

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

func TestHealth(t *testing.T) {
	var down atomic.Bool
	s, conn := serve(t, newGate(t), &rls.Options{Ready: func(context.Context) error {
		if down.Load() {
			return errors.New("store does not answer")
		}
		return nil
	}})
	client := healthpb.NewHealthClient(conn)
	for _, service := range []string{"", "envoy.service.ratelimit.v3.RateLimitService", "ratelimit"} {
		for _, isDown := range []bool{false, true} {
			down.Store(isDown)
			want := healthpb.HealthCheckResponse_SERVING
			if isDown {
				want = healthpb.HealthCheckResponse_NOT_SERVING
			}
			got, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			if err != nil || got.Status != want {
				t.Errorf("%q, down=%v: %v, %v; want %v", service, isDown, got, err, want)
			}
		}
	}
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("other: %v", err)
	}

	down.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	hear := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := watch.Recv(); err != nil || got.Status != want {
			t.Fatalf("watching: %v, %v; want %v", got, err, want)
		}
	}
	hear(healthpb.HealthCheckResponse_SERVING)
	down.Store(true)
	hear(healthpb.HealthCheckResponse_NOT_SERVING)
	down.Store(false)
	hear(healthpb.HealthCheckResponse_SERVING)
	if err := s.Shutdown(ctx); err != nil {
		t.Error("a watch held up the shutdown:", err)
	}
	hear(healthpb.HealthCheckResponse_NOT_SERVING)
	if _, err := watch.Recv(); err != io.EOF {
		t.Errorf("the watch goes on: %v", err)
	}
}

func TestReflection(t *testing.T) {
	_, conn := serve(t, newGate(t), nil)
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []*reflectionpb.ServerReflectionRequest{
		{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService"}},
	} {
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range listed.GetListServicesResponse().GetService() {
		names[s.Name] = true
	}
	if !names["envoy.service.ratelimit.v3.RateLimitService"] || !names["grpc.health.v1.Health"] {
		t.Errorf("listed: %v", listed)
	}
	if file, err := stream.Recv(); err != nil || len(file.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("the file of the service: %v, %v", file, err)
	}
}

// waiting is a request that a rule lets wait in line.
func waiting(t testing.TB) *gate.Gate {
	rule := on("user", "user", 1, time.Hour, "user")
	rule.Queue = &rules.QueueSpec{MaxWait: rules.Duration(time.Hour), MaxQueue: 10}
	return newGate(t, rule)
}

// TestDeadline: a caller that does not wait any longer is told so by its own
// deadline, and never that a limit was exceeded.
func TestDeadline(t *testing.T) {
	_, conn := serve(t, waiting(t), nil)
	client := pb.NewRateLimitServiceClient(conn)
	if _, err := client.ShouldRateLimit(t.Context(), ask(d("user", "a"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.ShouldRateLimit(ctx, ask(d("user", "a"))); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v; want DeadlineExceeded", err)
	}
}

// slow is a store that answers when it is let.
type slow struct {
	limit.Store
	begun, answer chan struct{}
}

func (s slow) Update(ctx context.Context, keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
	s.begun <- struct{}{}
	select {
	case <-s.answer:
		return s.Store.Update(ctx, keys, fn)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestShutdown: what has begun is answered, and is cut off when the grace is over.
func TestShutdown(t *testing.T) {
	rule := on("user", "user", 1, time.Hour, "user")
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{rule}})
	if set == nil {
		t.Fatal(problems)
	}
	for name, patient := range map[string]bool{"answered": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			store := slow{memory.New(nil), make(chan struct{}, 10), make(chan struct{})}
			limiter := limit.New(store, &limit.Options{Timeout: time.Minute})
			s, conn := serve(t, gate.New(limiter, &gate.Snapshot{Rules: set}, nil), nil)
			ended := make(chan error, 1)
			go func() {
				_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), ask(d("user", "a")))
				ended <- err
			}()
			<-store.begun
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := s.Shutdown(ctx); err == nil {
				t.Fatal("the shutdown did not wait")
			}
			want := codes.OK
			if patient {
				close(store.answer)
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			} else {
				want = codes.Unavailable
				s.Close()
				defer close(store.answer)
			}
			select {
			case err := <-ended:
				if status.Code(err) != want {
					t.Errorf("the call ended with %v; want %v", err, want)
				}
			case <-time.After(patience):
				t.Error("the call did not end")
			}
		})
	}
}

// TestStreamThatNeverEnds: a client that begins a call and never sends its message
// is cut off with its connection.
func TestStreamThatNeverEnds(t *testing.T) {
	s := rls.New(newGate(t), &rls.Options{MaxAge: 100 * time.Millisecond, Grace: 100 * time.Millisecond})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.WriteSettings()
	var block headerBlock
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", pb.RateLimitService_ShouldRateLimit_FullMethodName}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		block.add(h[0], h[1])
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.bytes, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	goingAway := false
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
				t.Fatal("the connection is still there")
			}
			break
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			goingAway = true
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			f.WritePing(true, frame.Data)
		}
	}
	if !goingAway {
		t.Error("the connection ended without GOAWAY")
	}
}

// headerBlock is a block of header fields.
type headerBlock struct{ bytes []byte }

func (b *headerBlock) Write(p []byte) (int, error) {
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

func (b *headerBlock) add(name, value string) {
	hpack.NewEncoder(b).WriteField(hpack.HeaderField{Name: name, Value: value})
}

// TestBrokenMessages: bytes that are no message are InvalidArgument, and a value
// that is not UTF-8 is a value as any other.
func TestBrokenMessages(t *testing.T) {
	_, conn := serve(t, newGate(t, on("user", "user", 1, time.Minute, "user")), nil)
	good, err := proto.Marshal(ask(d("user", "a")))
	if err != nil {
		t.Fatal(err)
	}
	invoke := func(message []byte) (*pb.RateLimitResponse, error) {
		var answer mem.BufferSlice
		if err := conn.Invoke(t.Context(), pb.RateLimitService_ShouldRateLimit_FullMethodName, message, &answer, grpc.ForceCodecV2(asIs{})); err != nil {
			return nil, err
		}
		got := new(pb.RateLimitResponse)
		return got, proto.Unmarshal(answer.Materialize(), got)
	}
	for n := 1; n < len(good); n++ {
		if n == 3 {
			continue // a domain, and no descriptors
		}
		if _, err := invoke(good[:n]); status.Code(err) != codes.InvalidArgument {
			t.Errorf("cut off behind %d bytes: %v", n, err)
		}
	}
	for _, message := range []string{"\x00", "\x0f", "\x0b", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x0a\xff\xff\xff\xff\x0f"} {
		if _, err := invoke([]byte(message)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", message, err)
		}
	}
	good[len(good)-1] = 0xff
	for _, want := range []pb.RateLimitResponse_Code{pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT} {
		if got, err := invoke(good); err != nil || got.OverallCode != want {
			t.Errorf("a value that is not UTF-8: %v, %v; want %v", got, err, want)
		}
	}
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
