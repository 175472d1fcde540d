package strategies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stint-dev/stint/loadtest"
)

// workload is one way to ask.
type workload struct {
	Name  string
	About string
	run   func(ctx context.Context, takers []taker, span time.Duration, m *meter)
}

const (
	hotRate = 200 // requests a second for one key
	// callTime is the longest that a decision may take.
	callTime = 10 * time.Second
)

func workloads(o *Options) []workload {
	return []workload{
		{"one key, 200/s", fmt.Sprintf("%d requests a second for one key, sent when they are due", hotRate), atRate},
		{"one key, 32 callers", "32 callers ask for one key, each as soon as it was answered", callers(32, 1)},
		{"many keys, 32 callers", fmt.Sprintf("32 callers ask for %d keys at random, each as soon as it was answered", o.Keys), callers(32, o.Keys)},
		{"many keys, 512 callers", fmt.Sprintf("512 callers ask for %d keys at random, each as soon as it was answered", o.Keys), callers(512, o.Keys)},
	}
}

// atRate asks at a fixed rate, whatever the answers. Time counts from when a
// request was due.
func atRate(ctx context.Context, takers []taker, span time.Duration, m *meter) {
	each := time.Second * time.Duration(len(takers)) / hotRate
	start := time.Now()
	var asking sync.WaitGroup
	for n, t := range takers {
		var due []time.Duration
		for at := each * time.Duration(n) / time.Duration(len(takers)); at < span; at += each {
			due = append(due, at)
		}
		asking.Go(func() {
			loadtest.OpenLoop(ctx, start, due, 100, func(_ int, at time.Time) { ask(ctx, t, "hot", at, m) })
		})
	}
	asking.Wait()
	m.took = max(span, time.Since(start))
}

// callers returns a workload of n callers that ask for keys at random.
func callers(n, keys int) func(context.Context, []taker, time.Duration, *meter) {
	return func(ctx context.Context, takers []taker, span time.Duration, m *meter) {
		start := time.Now()
		var asking sync.WaitGroup
		for i := range n {
			random := rand.New(rand.NewPCG(uint64(i), 3))
			asking.Go(func() {
				for time.Since(start) < span && ctx.Err() == nil {
					ask(ctx, takers[i%len(takers)], fmt.Sprintf("user-%d", random.IntN(keys)), time.Now(), m)
				}
			})
		}
		asking.Wait()
		m.took = time.Since(start)
	}
}

// ask asks t once and has m count the answer to what was due at since.
func ask(ctx context.Context, t taker, key string, since time.Time, m *meter) {
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	ok, err := t.take(call, key)
	m.add(ok, err, time.Since(since))
}
