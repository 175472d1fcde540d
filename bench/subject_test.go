package bench

import (
	"context"
	"hash/maphash"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"golang.org/x/time/rate"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/memory"
)

// quota is what each key gets: so many units at once, refilled in a window.
type quota struct {
	units  int
	window time.Duration
}

// take spends one unit of key and reports whether it was admitted.
type take func(key string) bool

// A subject is a limiter to be measured, set up as fast as it goes. done ends
// what open began.
type subject struct {
	name string
	open func(tb testing.TB, q quota) (take take, done func())
}

// subjects begins with the one that the others are compared with.
var subjects = []subject{
	{"stint", openStint},
	{"stint-store", openStintStore},
	{"throttled", openThrottled},
	{"go-limiter", openGoLimiter},
	{"x-time-rate", openTimeRate},
	{"floor", openFloor},
}

// maxKeys leaves room for all keys of a benchmark.
const maxKeys = 4 << 20

func openStint(_ testing.TB, q quota) (take, func()) {
	store := memory.New(&memory.Options{MaxKeys: maxKeys})
	limiter := limit.New(store, nil)
	policy := &limit.Policy{Name: "items", Quota: int64(q.units), Window: q.window, Mode: limit.Local}
	return func(key string) bool {
		d, err := limiter.Take(context.Background(), policy, key, 1)
		return err == nil && d.Allowed
	}, func() { store.Close() }
}

// openStintStore leaves out what a Limiter does around its store.
func openStintStore(_ testing.TB, q quota) (take, func()) {
	store := memory.New(&memory.Options{MaxKeys: maxKeys})
	policy := &limit.Policy{Name: "items", Quota: int64(q.units), Window: q.window, Mode: limit.Local}
	return func(key string) bool {
		v, err := store.Take(context.Background(), policy, key, 1)
		return err == nil && v.OK
	}, func() { store.Close() }
}

// openThrottled uses the store without a bound, which is faster than its LRU.
func openThrottled(tb testing.TB, q quota) (take, func()) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		tb.Fatal(err)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(q.units, q.window),
		MaxBurst: q.units - 1, // beyond the first
	})
	if err != nil {
		tb.Fatal(err)
	}
	limiter.SetMaxCASAttemptsLimit(1 << 20) // on a hot key the default of 10 ends in errors
	return func(key string) bool {
		limited, _, err := limiter.RateLimitCtx(context.Background(), key, 1)
		return err == nil && !limited
	}, func() {}
}

func openGoLimiter(tb testing.TB, q quota) (take, func()) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.units), Interval: q.window})
	if err != nil {
		tb.Fatal(err)
	}
	return func(key string) bool {
		_, _, _, ok, err := store.Take(context.Background(), key)
		return err == nil && ok
	}, func() { store.Close(context.Background()) }
}

// openTimeRate is the usual recipe: a limiter for each key, kept for ever.
func openTimeRate(_ testing.TB, q quota) (take, func()) {
	var limiters sync.Map
	perSecond := rate.Limit(float64(q.units) / q.window.Seconds())
	return func(key string) bool {
		l, ok := limiters.Load(key)
		if !ok {
			l, _ = limiters.LoadOrStore(key, rate.NewLimiter(perSecond, q.units))
		}
		return l.(*rate.Limiter).Allow()
	}, func() {}
}

// openFloor is the least that counts every key rightly: a hash, a lock, a map
// and the theoretical arrival time of the generic cell rate algorithm. It
// bounds nothing, forgets nothing and reports nothing.
func openFloor(_ testing.TB, q quota) (take, func()) {
	type shard struct {
		sync.Mutex
		arrivals map[string]*time.Duration
		_        [48]byte // a cache line for each
	}
	var shards [256]shard
	for i := range shards {
		shards[i].arrivals = make(map[string]*time.Duration)
	}
	seed, start := maphash.MakeSeed(), time.Now()
	interval := q.window / time.Duration(q.units)
	return func(key string) bool {
		s := &shards[maphash.String(seed, key)%256]
		s.Lock()
		defer s.Unlock()
		now := time.Since(start)
		arrival := s.arrivals[key]
		if arrival == nil {
			arrival = new(time.Duration)
			s.arrivals[key] = arrival
		}
		next := max(*arrival, now) + interval
		if next-now > q.window {
			return false
		}
		*arrival = next
		return true
	}, func() {}
}

func TestSubjectsCountAlike(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			take, done := s.open(t, quota{units: 3, window: time.Hour})
			defer done()
			for i, want := range []bool{true, true, true, false, false} {
				for _, key := range []string{"alex", "kim"} {
					if got := take(key); got != want {
						t.Errorf("take %d of %s: admitted is %t", i+1, key, got)
					}
				}
			}
		})
	}
}
