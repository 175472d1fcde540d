package rls

import (
	"context"
	"fmt"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/config/fromenvoy"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// branch is a descriptor of the reference implementation's configuration.
type branch struct {
	key, value    string
	requests      int // -1: no limit, -2: unlimited
	shadow, share bool
	children      []*branch
}

func (b *branch) yaml(out *strings.Builder, indent string) {
	fmt.Fprintf(out, "%s- key: %s\n", indent, b.key)
	if b.value != "" {
		fmt.Fprintf(out, "%s  value: %q\n", indent, b.value)
	}
	switch {
	case b.requests >= 0:
		fmt.Fprintf(out, "%s  rate_limit: {unit: hour, requests_per_unit: %d}\n", indent, b.requests)
	case b.requests == -2:
		fmt.Fprintf(out, "%s  rate_limit: {unlimited: true}\n", indent)
	}
	if b.shadow {
		fmt.Fprintf(out, "%s  shadow_mode: true\n", indent)
	}
	if b.share {
		fmt.Fprintf(out, "%s  share_threshold: true\n", indent)
	}
	if len(b.children) > 0 {
		fmt.Fprintf(out, "%s  descriptors:\n", indent)
		for _, c := range b.children {
			c.yaml(out, indent+"  ")
		}
	}
}

// lookUp is how the reference implementation finds the limit of entries: at each
// level by value, then by wildcard in order, then by key, never turning back. It
// returns the counter that is charged, too.
func lookUp(level []*branch, entries []entry) (found *branch, counter string) {
	var way []string
	for i, e := range entries {
		var next *branch
		for _, b := range level {
			if b.key == e.key && b.value == e.value && b.value != "" && !strings.HasSuffix(b.value, "*") {
				next = b
			}
		}
		for _, b := range level {
			if prefix, star := strings.CutSuffix(b.value, "*"); next == nil && b.key == e.key && star && strings.HasPrefix(e.value, prefix) {
				next = b
			}
		}
		for _, b := range level {
			if next == nil && b.key == e.key && b.value == "" {
				next = b
			}
		}
		if next == nil {
			return nil, ""
		}
		value := e.value
		if next.share {
			value = next.value
		}
		way = append(way, fmt.Sprintf("%q=%q", e.key, value))
		if i == len(entries)-1 && next.requests != -1 {
			return next, strings.Join(way, " ")
		}
		level = next.children
	}
	return nil, ""
}

// TestImportDecidesAsTheReference: random configurations are translated, and random
// descriptors get the codes that the reference implementation documents.
func TestImportDecidesAsTheReference(t *testing.T) {
	// Few keys and values, so that descriptors find their way into the tree.
	var keys *rapid.Generator[string]
	values := rapid.SampledFrom([]string{"", "a", "ab", "abc", "b", "/x?y"})
	patterns := rapid.SampledFrom([]string{"", "", "a", "ab", "a*", "ab*", "b*", "*", "b", "/x?y"})
	var tree func(t *rapid.T, depth int) []*branch
	tree = func(t *rapid.T, depth int) (level []*branch) {
		seen := map[string]bool{}
		for range rapid.IntRange(1, 5).Draw(t, "width") {
			b := &branch{key: keys.Draw(t, "key"), value: patterns.Draw(t, "pattern"), requests: rapid.IntRange(-2, 3).Draw(t, "requests")}
			if seen[b.key+" "+b.value] {
				continue
			}
			seen[b.key+" "+b.value] = true
			b.shadow = rapid.IntRange(0, 4).Draw(t, "shadow") == 0
			b.share = strings.HasSuffix(b.value, "*") && rapid.Bool().Draw(t, "share")
			if depth < 3 && rapid.Bool().Draw(t, "deeper") {
				b.children = tree(t, depth+1)
			}
			level = append(level, b)
		}
		return level
	}
	rapid.Check(t, func(t *rapid.T) {
		keys = rapid.SampledFrom(rapid.SampledFrom([][]string{{"user", "path"}, {"user"}, {"x.y", "a/b"}}).Draw(t, "keys"))
		root := tree(t, 1)
		text := &strings.Builder{}
		fmt.Fprint(text, "domain: d\ndescriptors:\n")
		for _, b := range root {
			b.yaml(text, "  ")
		}
		translated := fromenvoy.Translate([]fromenvoy.File{{Name: "random.yaml", Data: []byte(text.String())}})
		if translated.Rules == nil {
			t.Fatalf("%v\n%s", translated.Problems, text)
		}
		for _, lost := range translated.Lost {
			if !lost.Warning {
				t.Fatalf("%v\n%s", lost, text)
			}
		}
		file, problems := config.Parse("rules", translated.Rules)
		if file == nil {
			t.Fatalf("%v\n%s", problems, translated.Rules)
		}
		set, _ := rules.Compile(file.Spec)
		store := memory.New(&memory.Options{Now: func() algo.Ticks { return 1_800_014_400_000_000 }})
		s := newService(gate.New(limit.New(store, nil), &gate.Snapshot{Rules: set}, nil), nil)
		spent := map[string]int{}
		for range rapid.IntRange(10, 60).Draw(t, "requests") {
			var d ratelimit.RateLimitDescriptor
			var entries []entry
			for range rapid.IntRange(1, 3).Draw(t, "entries") {
				e := entry{keys.Draw(t, "key"), values.Draw(t, "value")}
				entries = append(entries, e)
				d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e.key, Value: e.value})
			}
			message, err := proto.Marshal(&pb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{&d}})
			if err != nil {
				t.Fatal(err)
			}
			var got pb.RateLimitResponse
			if err := s.answer(context.Background(), string(message), func(m []byte) error { return proto.Unmarshal(m, &got) }); err != nil {
				t.Fatal(err)
			}
			want, remaining := pb.RateLimitResponse_OK, -1
			if b, counter := lookUp(root, entries); b != nil && b.requests >= 0 && !b.shadow {
				if spent[counter] == b.requests {
					want = pb.RateLimitResponse_OVER_LIMIT
				} else {
					spent[counter]++
				}
				remaining = b.requests - spent[counter]
			}
			status := got.Statuses[0]
			if told := status.CurrentLimit != nil; got.OverallCode != want || told != (remaining >= 0) || told && int(status.LimitRemaining) != remaining {
				t.Fatalf("%v: %v; want %v, %d remaining\n%s\n%s", entries, &got, want, remaining, text, translated.Rules)
			}
		}
	})
}
