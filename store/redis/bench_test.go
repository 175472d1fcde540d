package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/store/redis"
)

func BenchmarkStore(b *testing.B) { limittest.Bench(b, single(b).harness()) }

// BenchmarkTake compares TakeBulk, with all who wait in one, with the script
// that is well known: one decision a call, through the same client.
func BenchmarkTake(b *testing.B) {
	s := single(b)
	s.url = s.direct // the wire is slower than the server
	store := s.open(b).(*redis.Store)
	defer store.Close()
	for _, callers := range []int{1, 32, 512} {
		for _, way := range []struct {
			name string
			take func(b *testing.B, s *redis.Store) func(ctx context.Context, key string) bool
		}{{"plain script", plainScript}, {"bulk", bulk}} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, way.name), func(b *testing.B) {
				crowd(b, callers, way.take(b, store))
			})
		}
	}
}

// crowd takes from 100,000 keys by so many callers.
func crowd(b *testing.B, callers int, take func(ctx context.Context, key string) bool) {
	var wg sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			for range (b.N + callers - 1 - c) / callers {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				if !take(ctx, fmt.Sprint("user ", rand.N(100_000))) {
					b.Error("denied")
				}
				cancel()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

var hour = &limit.Policy{Name: "hour", Quota: 1_000_000, Window: time.Hour}

func plainScript(_ *testing.B, s *redis.Store) func(ctx context.Context, key string) bool {
	script := rueidis.NewLuaScript(`
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local next = tat + interval * cost
local wait = next - interval * burst - now
if wait > 0 then
  return {0, 0, wait, tat - now}
end
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000))
return {1, math.floor(-wait / interval), 0, next - now}`)
	client := s.Client()
	return func(ctx context.Context, key string) bool {
		reply, err := script.Exec(ctx, client, []string{"plain:" + key}, []string{"3600", "1000000", "1"}).AsIntSlice()
		return err == nil && reply[0] == 1
	}
}

// bulk sends all who wait in one TakeBulk, as many of these at once as s says.
func bulk(_ *testing.B, s *redis.Store) func(ctx context.Context, key string) bool {
	f := &flights{store: s, idle: s.Parallel()}
	return f.take
}

type flights struct {
	store   *redis.Store
	mu      sync.Mutex
	idle    int
	waiting []*passenger
}

type passenger struct {
	key      string
	done     chan struct{}
	admitted bool
}

func (f *flights) take(_ context.Context, key string) bool {
	p := &passenger{key: limit.StoreKey(hour, key), done: make(chan struct{})}
	f.mu.Lock()
	f.waiting = append(f.waiting, p)
	var batch []*passenger
	if f.idle > 0 {
		f.idle--
		batch = f.board()
	}
	f.mu.Unlock()
	if batch != nil { // the first flies with the caller, those after it do not hold it up
		f.carry(batch)
		go f.fly()
	}
	<-p.done
	return p.admitted
}

func (f *flights) board() []*passenger {
	batch := f.waiting
	f.waiting = nil
	return batch
}

func (f *flights) fly() {
	for {
		runtime.Gosched() // those who have just been served ask again
		f.mu.Lock()
		batch := f.board()
		if batch == nil {
			f.idle++
		}
		f.mu.Unlock()
		if batch == nil {
			return
		}
		f.carry(batch)
	}
}

func (f *flights) carry(batch []*passenger) {
	at := make(map[string]int, len(batch))
	var takes []limit.Take
	for _, p := range batch {
		i, known := at[p.key]
		if !known {
			i = len(takes)
			at[p.key] = i
			takes = append(takes, limit.Take{Policy: hour, Key: p.key, Cost: 1})
		}
		takes[i].Times++
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := f.store.TakeBulk(ctx, takes)
	for _, p := range batch {
		t := &takes[at[p.key]]
		state, v := hour.Decide(t.Before, t.Now, 1)
		t.Before = state
		p.admitted = err == nil && v.OK
		close(p.done)
	}
}
