package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/redis"
)

func open(t *testing.T, url string) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// count counts key up by one, to be kept for ttl, and returns what it was.
func count(t *testing.T, s *redis.Store, key string, ttl algo.Ticks) (was int64, err error) {
	err = s.Update(t.Context(), []string{key}, func(_ algo.Ticks, cells []limit.Cell) error {
		c := &cells[0]
		was = c.State.A
		c.State.A, c.TTL, c.Dirty = was+1, ttl, true
		return nil
	})
	return was, err
}

// everything uses every command that a Store sends.
func everything(t *testing.T, s *redis.Store) error {
	heard := make(chan string, 2)
	go s.Listen(t.Context(), func(message string) { heard <- message })
	if message := <-heard; message != "" {
		t.Errorf("heard %q", message)
	}
	for _, a := range []*algo.Algorithm{algo.GCRA, algo.Fixed, algo.Sliding} {
		p := &limit.Policy{Name: "p", Algorithm: a, Quota: 10, Window: time.Hour}
		if err := s.TakeBulk(t.Context(), []limit.Take{{Policy: p, Key: limit.StoreKey(p, "alice"), Cost: 1, Times: 1}}); err != nil {
			return err
		}
	}
	if _, err := count(t, s, "key", algo.Day); err != nil {
		return err
	}
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			return err
		}
	}
	for _, err := range []error{s.Delete(t.Context(), "key"), s.Ping(t.Context()), s.Notify(t.Context(), "note")} {
		if err != nil {
			return err
		}
	}
	<-heard
	return everyRule(t, s.Rules())
}

// everyRule uses every command that a table of rules sends.
func everyRule(t *testing.T, s rules.Source) error {
	ctx := t.Context()
	row, err := s.Put(ctx, rules.Row{Path: "/x", Calls: 1, PeriodMS: 1}, "ann")
	if err == nil {
		_, err = s.List(ctx, 0, 1)
	}
	if err == nil {
		_, err = s.History(ctx, rules.HistoryQuery{Limit: 1})
	}
	if err == nil {
		_, err = s.Version(ctx)
	}
	if err == nil {
		_, err = s.Get(ctx, row.ID)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := s.(rules.Watcher).Watch(ctx, stop)
	if err == nil && !errors.Is(watched, context.Canceled) {
		err = watched
	}
	if err == nil {
		err = s.Delete(t.Context(), row.ID, row.Revision, "ann")
	}
	return err
}

func TestRightsOfTheScriptAreEnough(t *testing.T) {
	server := servertest.StartRedis(t)
	grants := 0
	for line := range strings.Lines(redis.Script()) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		grants += strings.Count(line, "ACL")
		if answer := server.Run(t, strings.Fields(line)...); strings.TrimSpace(answer) != "OK" {
			t.Fatalf("%s: %s", line, answer)
		}
	}
	if grants != 1 {
		t.Fatalf("the script makes %d users, want 1", grants)
	}
	url := strings.Replace(server.URL, "//", "//stint:PASSWORD@", 1)
	done, err := redis.Migrate(t.Context(), url)
	if want := []string{"redis has no schema: nothing to do"}; err != nil || !slices.Equal(done, want) {
		t.Errorf("migrate: %q, %v; want %q", done, err, want)
	}
	if err := everything(t, open(t, url)); err != nil {
		t.Error(err)
	}
}

func TestScriptsAreSentAgainToAServerThatForgotThem(t *testing.T) {
	server := servertest.StartRedis(t)
	s := open(t, server.URL)
	for range 2 {
		server.Run(t, "SCRIPT", "FLUSH")
		if err := everything(t, s); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusalsAreNotSent(t *testing.T) {
	server := servertest.StartRedis(t)
	s := open(t, server.URL)
	for _, test := range []struct {
		name     string
		do, undo []string
		want     string
	}{
		{"replica", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"},
			"redis: update: READONLY You can't write against a read only replica; name the primary in place of its replica"},
		{"memory", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"},
			"redis: update: OOM command not allowed when used memory > 'maxmemory'; give the server more memory (maxmemory)"},
		{"replicas", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"},
			"redis: update: NOREPLICAS Not enough good replicas to write; connect more replicas, or lower min-replicas-to-write"},
	} {
		server.Run(t, test.do...)
		was, err := count(t, s, "key", algo.Day)
		if fault, ok := err.(*limit.StoreError); !ok || fault.Sent || err.Error() != test.want {
			t.Errorf("%s: got  %v\nwant %s, not sent", test.name, err, test.want)
		}
		server.Run(t, test.undo...)
		if now, err := count(t, s, "key", algo.Day); err != nil || now != was {
			t.Errorf("%s: afterwards the key counts %d, %v; want %d", test.name, now, err, was)
		}
	}
	server.Kill(t)
	count(t, s, "key", algo.Day) // finds that the connection is gone
	if _, err := count(t, s, "key", algo.Day); err == nil || err.(*limit.StoreError).Sent {
		t.Errorf("of a server that is not there: %v, want an error of what was not sent", err)
	}
	server.Restart(t)
	if was, err := count(t, s, "key", algo.Day); err != nil || was != 0 {
		t.Errorf("of a server that is there again, and empty: %d, %v", was, err)
	}
}

// TestSilentServer stops a server without ending it. Calls end in time, by
// their deadline or, once they are cancelled, by the store's own.
func TestSilentServer(t *testing.T) {
	server := servertest.StartRedis(t)
	s, err := redis.Open(t.Context(), server.URL, &redis.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	counted, sent := 0, 0
	update := func(ctx context.Context) error {
		return s.Update(ctx, []string{"key"}, func(_ algo.Ticks, cells []limit.Cell) error {
			c := &cells[0]
			c.State.A, c.TTL, c.Dirty = c.State.A+1, algo.Day, true
			return nil
		})
	}
	server.Pause(t)
	for i := range 6 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if i >= 3 {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
			time.AfterFunc(100*time.Millisecond, cancel)
		}
		began := time.Now()
		err := update(ctx)
		cancel()
		if took := time.Since(began); err == nil || took > 3*time.Second {
			t.Errorf("call %d: %v after %v, want an error in time", i, err, took)
		} else if err.(*limit.StoreError).Sent {
			sent++
		}
	}
	server.Resume(t)
	for began := time.Now(); counted < 3; {
		if err := update(t.Context()); err == nil {
			counted++
		} else if err.(*limit.StoreError).Sent {
			sent++
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%d updates in 10s after the server goes on", counted)
		}
	}
	if was, err := count(t, s, "key", algo.Day); err != nil || was < int64(counted) || was > int64(counted+sent) {
		t.Errorf("the key counts %d, %v; %d updates succeeded and %d more were sent", was, err, counted, sent)
	}
}

func TestRedisDropsWhatHasEnded(t *testing.T) {
	server := servertest.StartRedis(t)
	s := open(t, server.URL)
	p := &limit.Policy{Name: "minute", Quota: 60, Window: time.Minute}
	for key, ttl := range map[string]algo.Ticks{"a minute": algo.Minute, "a year": algo.Year, "for ever": 1<<63 - 1, limit.StoreKey(p, "bulk"): 0} {
		var err error
		if ttl > 0 {
			_, err = count(t, s, key, ttl)
		} else {
			ttl = algo.Second
			err = s.TakeBulk(t.Context(), []limit.Take{{Policy: p, Key: key, Cost: 1, Times: 1}})
		}
		if err != nil {
			t.Fatal(err)
		}
		ttl = min(ttl, 200*algo.Year)
		left, _ := strconv.ParseInt(strings.TrimSpace(server.Run(t, "PTTL", s.Name(key))), 10, 64)
		if at := algo.Ticks(left) * algo.Millisecond; at <= ttl || at > ttl+2*algo.Second {
			t.Errorf("%q is dropped after %v, want %v and a second", key, at, ttl)
		}
	}
}

func TestSomebodyElsesKey(t *testing.T) {
	server := servertest.StartRedis(t)
	s := open(t, server.URL)
	p := &limit.Policy{Name: "p", Quota: 10, Window: time.Hour}
	key := limit.StoreKey(p, "alice")
	for _, value := range []string{"short", "longer than the head of a state", strings.Repeat("as long as a state", 3)[:39]} {
		server.Run(t, "SET", s.Name(key), value)
		_, updated := count(t, s, key, algo.Day)
		taken := s.TakeBulk(t.Context(), []limit.Take{{Policy: p, Key: key, Cost: 1, Times: 1}})
		want := fmt.Sprintf("a key holds %d bytes that are no state; if it is somebody else's, choose another prefix", len(value))
		for op, err := range map[string]error{"update": updated, "take": taken} {
			if err == nil || err.Error() != "redis: "+op+": "+want {
				t.Errorf("got  %v\nwant redis: %s: %s", err, op, want)
			}
		}
	}
}

func TestTLS(t *testing.T) {
	cert, key := servertest.Certificate(t)
	port := fmt.Sprint(servertest.FreePort(t))
	servertest.StartRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	if err := everything(t, open(t, "rediss://127.0.0.1:"+port+"?skip_verify=true")); err != nil {
		t.Error(err)
	}
	_, err := redis.Open(t.Context(), "rediss://127.0.0.1:"+port, nil)
	if err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
}
