package redis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/redis"
)

// TestUpdateBeginsAgain has somebody else change one key of an update while it
// is under way.
func TestUpdateBeginsAgain(t *testing.T) {
	s := single(t)
	store := s.open(t).(*redis.Store)
	defer store.Close()
	for _, test := range []struct {
		name   string
		dirty  []bool // of the keys a and b
		stolen string
		runs   int
		want   [2]int64 // what a and b count in the end
	}{
		{"nothing was stolen", []bool{true, true}, "c", 1, [2]int64{1, 1}},
		{"the first", []bool{true, true}, "a", 2, [2]int64{11, 1}},
		{"the last", []bool{true, true}, "b", 2, [2]int64{1, 11}},
		{"one that is only read", []bool{false, true}, "a", 2, [2]int64{10, 1}},
		{"one of two that are only read", []bool{false, false}, "a", 1, [2]int64{10, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			keys, runs := []string{test.name + "a", test.name + "b"}, 0
			err := store.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
				if runs++; runs == 1 {
					steal(t, store, test.name+test.stolen)
				}
				for i := range cells {
					c := &cells[i]
					if c.Dirty = test.dirty[i]; c.Dirty {
						c.State.A, c.TTL = c.State.A+1, algo.Day
					}
				}
				return nil
			})
			if err != nil || runs != test.runs {
				t.Errorf("fn ran %d times, and %v; want %d", runs, err, test.runs)
			}
			var got [2]int64
			err = store.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
				got = [2]int64{cells[0].State.A, cells[1].State.A}
				return nil
			})
			if err != nil || got != test.want {
				t.Errorf("a and b count %d, %v; want %d", got, err, test.want)
			}
		})
	}
}

// steal counts key up by ten.
func steal(t *testing.T, s *redis.Store, key string) {
	cells := []limit.Cell{{Key: key}}
	for range 2 {
		if _, err := s.Swap(t.Context(), cells); err != nil {
			t.Fatal(err)
		}
		cells[0].State.A, cells[0].TTL, cells[0].Dirty = cells[0].State.A+10, algo.Day, true
	}
}

func TestAStateEndsToTheMicrosecond(t *testing.T) {
	s := single(t).frozen(t)
	store := s.open(t).(*redis.Store)
	defer store.Close()
	if _, err := count(t, store, "key", algo.Second); err != nil {
		t.Fatal(err)
	}
	see := func() (seen []string) {
		cells := []limit.Cell{{Key: "key"}}
		if _, err := store.Swap(t.Context(), cells); err != nil {
			t.Fatal(err)
		}
		for c, err := range store.List(t.Context(), "") {
			seen = append(seen, fmt.Sprint(c.Key, " for ", c.TTL, " ", err))
		}
		return append(seen, fmt.Sprint("A is ", cells[0].State.A))
	}
	s.advance(t, time.Second-time.Microsecond)
	if got, want := see(), []string{"key for 1us <nil>", "A is 1"}; !slices.Equal(got, want) {
		t.Errorf("a microsecond before its end: %q, want %q", got, want)
	}
	s.advance(t, time.Microsecond)
	if got, want := see(), []string{"A is 0"}; !slices.Equal(got, want) {
		t.Errorf("at its end: %q, want %q", got, want)
	}
}
