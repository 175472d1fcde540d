package fair_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// A million tenants that were never seen before, in a minute, while others go on. They
// cost no more than is bounded, and two minutes later nothing.
func TestAMillionTenants(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	for _, runs := range []time.Duration{time.Millisecond, time.Second} {
		c := house(1000)
		c.Guarantee = 0.5
		room, err := fair.New(c)
		if err != nil {
			t.Fatal(err)
		}
		before := heapInUse()
		type ending struct {
			at time.Duration
			q  *fair.Request
		}
		var endings []ending // all run for as long, so they end in the order in which they started
		refused, most := 0, 0
		now := time.Duration(0)
		follow := func(requests ...*fair.Request) {
			for _, q := range requests {
				if q.State == fair.Running {
					endings = append(endings, ending{now + runs, q})
				} else if q.State == fair.Refused {
					refused++
				}
			}
		}
		for i := range n {
			at := time.Duration(i) * time.Minute / time.Duration(n)
			for len(endings) > 0 && endings[0].at <= at {
				now = endings[0].at
				q := endings[0].q
				endings = endings[1:]
				follow(room.Finish(now, q)...)
			}
			now = at
			q := &fair.Request{Tenant: fmt.Sprint("tenant", i)}
			others, err := room.Arrive(now, q)
			if err != nil {
				t.Fatal(err)
			}
			follow(others...)
			follow(q)
			if i%(n/20) == n/20-1 {
				most = max(most, heapInUse()-before)
			}
		}
		s := room.Snapshot(0)
		t.Logf("requests of %s: %d MB at most; in the end %d tenants known, %d seats held, %d requests waiting, %d refused", runs, most>>20, s.Tenants, s.Busy, s.Waiting, refused)
		if most > 100<<20 {
			t.Errorf("requests of %s: %d MB", runs, most>>20)
		}
		for len(endings) > 0 {
			now = endings[0].at
			q := endings[0].q
			endings = endings[1:]
			follow(room.Finish(now, q)...)
		}
		for until := now + 2*time.Minute; ; {
			at, ok := room.Next()
			if !ok || at > until {
				break
			}
			now = max(now, at)
			follow(room.Tick(now)...)
		}
		endings = nil
		left := heapInUse() - before
		if s := room.Snapshot(0); s.Tenants != 0 || s.Busy != 0 || left > 4<<20 {
			t.Errorf("requests of %s: two minutes later: %d tenants are known, %d seats held, %d kB of heap", runs, s.Tenants, s.Busy, left>>10)
		}
		runtime.KeepAlive(room)
	}
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
