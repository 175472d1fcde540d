package isolate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is an instant of these tests, in seconds.
func at(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }

// has is a holder that said at 100 that it has seats, and wants so many.
func has(node uint64, seats, want uint32) Holder {
	return Holder{Node: node, Seats: seats, Want: want, Cap: 4, Turn: at(90), Seen: at(100), TTL: 10 * time.Second}
}

// waits is h with a request that waits since it had its turn.
func (h Holder) waits(since float64) Holder {
	h.First, h.Turn = 1, at(since)
	return h
}

func TestSettle(t *testing.T) {
	const none = "-"
	for _, tt := range []struct {
		what        string
		now         float64
		holders     []Holder
		w           word // of node 1
		held, limit int
		kept        string // node:seats of each, or none if nothing is to be kept
	}{
		{"the first of all", 100, nil, word{cap: 4, want: 3, spare: 1}, 4, 4, "1:4"},
		{"who wants nothing is not known", 100, nil, word{cap: 4}, 0, 0, none},
		{"nothing is new", 101, []Holder{has(1, 4, 3)}, word{cap: 4, want: 3, spare: 1, keep: 4}, 4, 4, none},
		{"nothing is new, but a former word may yet arrive", 101, []Holder{has(1, 4, 3)}, word{cap: 4, want: 3, spare: 1, keep: 4, unsure: true}, 4, 4, "1:4"},
		{"a third of its time is over", 103.4, []Holder{has(1, 4, 3)}, word{cap: 4, want: 3, spare: 1, keep: 4}, 4, 4, "1:4"},
		{"wants less, alone", 101, []Holder{has(1, 4, 3)}, word{cap: 4, want: 2, spare: 1, keep: 4}, 4, 3, none},
		{"and uses less by now", 101, []Holder{has(1, 4, 3)}, word{cap: 4, want: 2, spare: 1, keep: 3}, 3, 3, "1:3"},
		{"wants nothing any more", 101, []Holder{has(1, 4, 3)}, word{cap: 4, keep: 0}, 0, 0, ""},
		{"wants nothing, and runs something", 101, []Holder{has(1, 4, 3)}, word{cap: 4, use: 2, keep: 2}, 2, 0, "1:2"},
		{"takes what is free", 101, []Holder{has(2, 3, 4)}, word{cap: 4, want: 4}, 1, 1, "2:3 1:1"},
		{"spares nothing where others want it", 101, []Holder{has(2, 1, 3)}, word{cap: 4, want: 1, spare: 3}, 1, 1, "2:1 1:1"},
		{"gives back what others should have, as far as it is not used", 101, []Holder{has(1, 4, 4), has(2, 0, 4)}, word{cap: 4, want: 4, use: 3, keep: 3}, 3, 2, "2:0 1:3"},
		{"leaves alone what others want no more than they have", 101, []Holder{has(1, 2, 2), has(2, 1, 1)}, word{cap: 4, want: 4, keep: 2}, 3, 3, "2:1 1:3"},
		{"the lowest cap holds", 101, []Holder{{Node: 2, Seats: 1, Want: 1, Cap: 2, Seen: at(100), TTL: 10 * time.Second}}, word{cap: 4, want: 4}, 1, 1, "2:1 1:1"},
		{"its own cap is lower", 101, []Holder{has(1, 2, 4), has(2, 2, 4)}, word{cap: 2, want: 2, use: 2, keep: 2}, 2, 0, "2:2 1:2"},
		{"one is dead", 110, []Holder{has(2, 4, 4), {Node: 3, Want: 1, Cap: 4, Seen: at(108), TTL: 10 * time.Second}}, word{cap: 4, want: 4}, 3, 3, "3:0 1:3"},
		{"one is nearly dead", 109.9, []Holder{has(2, 4, 4), {Node: 3, Want: 1, Cap: 4, Seen: at(108), TTL: 10 * time.Second}}, word{cap: 4, want: 4}, 0, 0, "2:4 3:0 1:0"},
		{"nobody had a word for long", 200, []Holder{has(2, 4, 4)}, word{cap: 4, want: 4}, 0, 0, "2:4 1:0"},
		{"and it had not either", 200, []Holder{has(1, 2, 2), has(2, 2, 4)}, word{cap: 4, want: 2, keep: 2}, 2, 2, "2:2 1:2"},
		{"the clock was stepped back", 50, []Holder{has(2, 4, 4)}, word{cap: 4, want: 4}, 0, 0, "2:4 1:0"},
		{"it came back with more than it holds", 101, []Holder{has(2, 2, 2)}, word{cap: 4, want: 4, use: 3, keep: 3}, 2, 2, "2:2 1:2"},
		{"one seat: its turn has come", 101, []Holder{has(2, 0, 1).waits(99), has(1, 0, 1).waits(98)}, word{cap: 1, want: 1, first: 1}, 1, 1, "2:0 1:1"},
		{"one seat: the other's turn has come", 101, []Holder{has(2, 0, 1).waits(98), has(1, 0, 1).waits(99)}, word{cap: 1, want: 1, first: 1}, 0, 0, "2:0 1:0"},
		{"one seat: its turn is over", 101, []Holder{has(2, 0, 1).waits(98), has(1, 1, 1).waits(99.9)}, word{cap: 1, want: 1, first: 1, use: 1, keep: 1}, 1, 0, "2:0 1:1"},
		{"one seat: its turn is not over", 101, []Holder{has(2, 0, 1).waits(98), has(1, 1, 1).waits(100.1)}, word{cap: 1, want: 1, first: 1, use: 1, keep: 1}, 1, 1, "2:0 1:1"},
		{"a wide request whose turn it is", 101, []Holder{has(2, 2, 4).waits(100), has(1, 2, 4).waits(98)}, word{cap: 4, want: 4, first: 3, keep: 2}, 2, 2, "2:2 1:2"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			tt.w.node, tt.w.ttl = 1, 10*time.Second
			before := slices.Clone(tt.holders)
			next, keep := tt.w.settle(at(tt.now), tt.holders)
			kept := none
			if keep {
				var all []string
				for _, h := range next {
					all = append(all, fmt.Sprintf("%d:%d", h.Node, h.Seats))
				}
				kept = strings.Join(all, " ")
			}
			if tt.w.held != tt.held || tt.w.limit != tt.limit || kept != tt.kept {
				t.Errorf("holds %d of which %d may be used, keeps %q; want %d, %d, %q", tt.w.held, tt.w.limit, kept, tt.held, tt.limit, tt.kept)
			}
			if !slices.Equal(before, tt.holders) {
				t.Error("the holders that were given are changed")
			}
		})
	}
}

// However many nodes want however much, what they are to have adds up to the cap, or to
// what they want if that is less, and nobody who wants no more than its equal part has
// less than that.
func TestTargetsAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		cap, all := 1+random.IntN(20), 0
		holders := make([]Holder, 1+random.IntN(6))
		for i := range holders {
			h := &holders[i]
			h.Node, h.Want, h.Seats = uint64(i), uint32(random.IntN(cap+1)), uint32(random.IntN(cap+1))
			h.Turn = at(100 - 3*random.Float64())
			if h.Want > 0 && random.IntN(2) == 0 {
				h.First = 1 + uint32(random.IntN(int(h.Want)))
			}
			all += int(h.Want)
		}
		sum, wide := 0, false
		parts := make([]int, len(holders))
		for i := range holders {
			// The last one is who asks.
			holders[i], holders[len(holders)-1] = holders[len(holders)-1], holders[i]
			parts[i] = targets(at(100), cap, 0, holders)
			holders[i], holders[len(holders)-1] = holders[len(holders)-1], holders[i]
			sum += parts[i]
			wide = wide || holders[i].First > 1
		}
		if sum != min(cap, all) {
			t.Fatalf("cap %d: %v are to have %v", cap, holders, parts)
		}
		for i, part := range parts {
			if !wide && part < min(int(holders[i].Want), cap/len(holders)) {
				t.Fatalf("cap %d: %v are to have %v; the %d. has less than its part", cap, holders, parts, i+1)
			}
		}
	}
}
