package redis_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/store/redis"
)

// server is a Redis in which every Open has a prefix of its own.
type server struct {
	url    string
	tag    string // begins each prefix
	prefix string // of the last Open
	opened int
	wire   *servertest.Wire
	direct string         // the URL that goes round the wire
	raw    rueidis.Client // if the clock is frozen
}

func single(t testing.TB) *server {
	if url := os.Getenv(servertest.RedisURL); url != "" {
		return &server{url: url, direct: url}
	}
	r := servertest.StartRedis(t)
	wire := servertest.NewWire(t, r.Address)
	return &server{url: "redis://" + wire.Address, direct: r.URL, wire: wire}
}

func (s *server) open(t testing.TB) limit.Store {
	s.opened++
	s.prefix = fmt.Sprintf("%s%d:%d:", s.tag, os.Getpid(), s.opened)
	return s.reopen(t)
}

func (s *server) reopen(t testing.TB) limit.Store {
	t.Helper()
	store, err := redis.Open(t.Context(), s.url, &redis.Options{Prefix: s.prefix})
	if err != nil {
		t.Fatal(err)
	}
	if s.raw != nil {
		store.SetClock(clockKey)
	}
	return store
}

func (s *server) harness() limittest.Harness {
	h := limittest.Harness{Open: s.open, Reopen: s.reopen}
	if s.raw != nil {
		h.Advance = s.advance
	}
	if s.wire != nil {
		h.Break = func(testing.TB) func() {
			s.wire.Cut()
			return s.wire.Mend
		}
	}
	return h
}

const clockKey = "the clock of the tests"

// frozen returns s with a clock that stands still until it is moved.
func (s server) frozen(t testing.TB) *server {
	option, err := rueidis.ParseURL(s.direct)
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	if s.raw, err = rueidis.NewClient(option); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.raw.Close)
	s.advance(t, time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).Sub(time.Unix(0, 0)))
	return &s
}

func (s *server) advance(t testing.TB, d time.Duration) {
	t.Helper()
	if err := s.raw.Do(t.Context(), s.raw.B().Incrby().Key(clockKey).Increment(d.Microseconds()).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// now returns the instant of the frozen clock, in microseconds.
func (s *server) now(t testing.TB) int64 {
	t.Helper()
	now, err := s.raw.Do(t.Context(), s.raw.B().Get().Key(clockKey).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// TestStore runs the suite by a clock that stands still; TestCluster runs it by
// the servers' own.
func TestStore(t *testing.T) { limittest.Run(t, single(t).frozen(t).harness()) }
