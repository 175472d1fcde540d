package rls

import (
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// read is a request as both readers see it.
type read struct {
	Domain      string
	Hits        uint32
	Descriptors []readDescriptor
}

type readDescriptor struct {
	Entries     []string // keys and values in turn
	Hits        uint64
	HasHits     bool
	Limit       bool
	Quota, Unit uint32
}

func byGenerated(r *pb.RateLimitRequest) read {
	all := read{Domain: r.Domain, Hits: r.HitsAddend}
	for _, d := range r.Descriptors {
		one := readDescriptor{Hits: d.HitsAddend.GetValue(), HasHits: d.HitsAddend != nil, Limit: d.Limit != nil, Quota: d.Limit.GetRequestsPerUnit(), Unit: uint32(d.Limit.GetUnit())}
		for _, e := range d.Entries {
			one.Entries = append(one.Entries, e.Key, e.Value)
		}
		all.Descriptors = append(all.Descriptors, one)
	}
	return all
}

func byOurs(c *call) read {
	all := read{Domain: c.domain, Hits: uint32(c.hits)}
	for _, d := range c.descriptors {
		one := readDescriptor{Hits: d.hits, HasHits: d.hasHits, Limit: d.limit.given, Quota: d.limit.quota, Unit: uint32(d.limit.unit)}
		for _, e := range d.entries {
			one.Entries = append(one.Entries, e.key, e.value)
		}
		all.Descriptors = append(all.Descriptors, one)
	}
	return all
}

// FuzzDecode holds the reader against the generated code: what it accepts, both
// read alike; what it calls no message at all, the generated code refuses, too, or
// it has groups.
func FuzzDecode(f *testing.F) {
	for _, r := range []*pb.RateLimitRequest{
		{},
		{Domain: "d", HitsAddend: 1<<32 - 1, Descriptors: []*ratelimit.RateLimitDescriptor{
			{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "a", Value: "b"}, {Key: "c"}}, HitsAddend: wrapperspb.UInt64(1<<64 - 1)},
			{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "a", Value: strings.Repeat("x", 300)}}, Limit: &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: 3}, HitsAddend: wrapperspb.UInt64(0)},
		}},
	} {
		message, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
		f.Add(append(message, message...))
		f.Add(protowire.AppendFixed64(protowire.AppendTag(protowire.AppendFixed32(protowire.AppendTag(message, 90, protowire.Fixed32Type), 1), 91, protowire.Fixed64Type), 2))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var generated pb.RateLimitRequest
		refused := proto.Unmarshal(message, &generated)
		c := &call{message: string(message)}
		err := c.decode()
		if err == errWire && refused == nil && !hasGroup(message, 3) {
			t.Errorf("%x is a message, and is refused", message)
		}
		if err != nil || refused != nil && strings.Contains(refused.Error(), "UTF-8") {
			return
		}
		if refused != nil {
			t.Fatalf("%x is no message (%v), and is accepted", message, refused)
		}
		if diff := cmp.Diff(byGenerated(&generated), byOurs(c)); diff != "" {
			t.Errorf("%x is read otherwise (-generated +ours):\n%s", message, diff)
		}
		c.forget()
		if c.domain != "" || len(c.descriptors)+len(c.entries) != 0 {
			t.Error("a call that is used again remembers")
		}
	})
}

// hasGroup reports whether there is a group in a message, or in one within it, as
// deep as the request's go.
func hasGroup(message []byte, depth int) bool {
	for len(message) > 0 {
		_, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		if kind == protowire.StartGroupType {
			return true
		}
		rest := message[n:]
		if kind == protowire.BytesType {
			if inner, m := protowire.ConsumeBytes(rest); m >= 0 && depth > 0 && hasGroup(inner, depth-1) {
				return true
			}
		}
		m := protowire.ConsumeFieldValue(1, kind, rest)
		if m < 0 {
			return false
		}
		message = rest[m:]
	}
	return false
}
