package memory

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// rulesOfAll are those that every user of these tests is counted by.
const rulesOfAll = 20

// policies returns the limits of the rules: one request in a window.
func policies(window time.Duration) (ps []*limit.Policy) {
	for i := range rulesOfAll {
		ps = append(ps, &limit.Policy{Name: "rule-" + strconv.Itoa(i), Quota: 1, Window: window})
	}
	return ps
}

// users is how many users there are: a million, or some of them where nobody waits.
func users() int {
	if os.Getenv("STINT_SCENARIOS") != "" {
		return 1_000_000
	}
	return 8_000
}

// Users come, come again, and go, each counted by twenty rules. The store has room for
// half as many keys again as there are windows that run: nobody is reset before its time,
// and everybody after it.
func TestUsersByRulesAreNotResetEarly(t *testing.T) {
	const perSecond, window = 500, 10 // two windows of 10 s for 500 users a second, by 20 rules, are 200,000 keys
	c := newClock()
	s := New(&Options{MaxKeys: 300_000, Now: c.now})
	ps := policies(window * time.Second)
	n := users()
	most := 0
	for i := range n + perSecond*window {
		c.advance(algo.Second / perSecond)
		for _, visit := range []struct {
			user int
			want bool
			what string
		}{
			{i, true, "comes first"},
			{i - perSecond*window + 1, false, "comes again before its window has ended"},
			{i - perSecond*window, true, "comes again when it has"},
		} {
			if visit.user < 0 || visit.user >= n {
				continue
			}
			key := strconv.Itoa(visit.user)
			for _, p := range ps {
				if take(t, s, p, key, 1).OK != visit.want {
					t.Fatalf("user %d %s, and %s says otherwise: %+v", visit.user, visit.what, p.Name, s.Stats())
				}
			}
		}
		most = max(most, s.Stats().Keys)
	}
	t.Logf("%d users, %d rules: at most %d keys at a time", n, rulesOfAll, most)
	if forgotten := s.Stats().Forgotten; forgotten > 0 {
		t.Errorf("%d keys were forgotten", forgotten)
	}
}

// All users are there at once, and more keys than the store may have: it has as many
// as it may, says how many it forgot, and takes the memory of those that it has.
func TestUsersByRulesAreBounded(t *testing.T) {
	const room = 1 << 17
	c := newClock()
	before := heap()
	s := New(&Options{MaxKeys: room, Now: c.now})
	ps := policies(time.Hour)
	n := users()
	// Whoever has the longest to wait is not the one who is forgotten.
	banned := &limit.Policy{Name: "banned", Quota: 1, Window: 24 * time.Hour}
	take(t, s, banned, "mallory", 1)
	for i := range n {
		key := strconv.Itoa(i)
		for _, p := range ps {
			if !take(t, s, p, key, 1).OK {
				t.Fatalf("user %d is denied its first request by %s", i, p.Name)
			}
		}
		if keys := s.Stats().Keys; keys > room {
			t.Fatalf("%d keys, and %d are allowed", keys, room)
		}
	}
	took := heap() - before
	stats := s.Stats()
	t.Logf("%d users, %d rules: %d keys in %d MB, %d forgotten", n, rulesOfAll, stats.Keys, took>>20, stats.Forgotten)
	if all := uint64(n*rulesOfAll + 1); uint64(stats.Keys)+uint64(stats.Forgotten) != all {
		t.Errorf("%d keys and %d forgotten, of %d", stats.Keys, stats.Forgotten, all)
	}
	if took > room*256 {
		t.Errorf("the store takes %d bytes for %d keys", took, stats.Keys)
	}
	if take(t, s, banned, "mallory", 1).OK {
		t.Error("who had a day to wait was reset by those who had an hour")
	}
	c.advance(25 * algo.Hour)
	if keys := len(list(t, s, "")); keys != 0 {
		t.Errorf("%d keys are alive when all windows have ended", keys)
	}
	runtime.KeepAlive(s)
}
