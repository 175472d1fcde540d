package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/loadtest"
)

const (
	// mostVictims bounds how many requests of the victims are under way. It is
	// never reached as long as they are fewer than that in all the time that a
	// caller waits.
	mostVictims = 8192
	// mostNoisy bounds those of the noisy tenant, which spares the ways without
	// isolation.
	mostNoisy = 2048
)

// arrival is one request.
type arrival struct {
	at     time.Duration
	tenant int
}

// arrivals returns what the devices of some tenants send up to a time: each one at equal
// distances, from an instant of its own on. They are the same every time.
func arrivals(first, tenants, devices int, every, from, to time.Duration) (all []arrival) {
	random := rand.New(rand.NewPCG(uint64(first), 1))
	for t := first; t < first+tenants; t++ {
		for range devices {
			for at := from + time.Duration(random.Int64N(int64(every))); at < to; at += every {
				all = append(all, arrival{at, t})
			}
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return int(a.at - b.at) })
	return all
}

// sample is what became of one request.
type sample struct {
	due, took time.Duration
	late      time.Duration // from when it was due to when it was sent
	status    int
	err       error
}

// run measures one way.
func (b *bench) run(ctx context.Context, h Handler, w way) (*Result, error) {
	s, err := serve(h, w, b.turns)
	if err != nil {
		return nil, err
	}
	defer s.shutdown()
	patience := b.Patience + max(h.Victims, h.Noisy)
	shown := time.Duration(0)
	if w.guarantee > 0 {
		shown = b.Learning
	}
	begins := shown + b.lead()
	counts := begins + b.Settle
	ends := begins + b.Duration
	start := time.Now().Add(100 * time.Millisecond)

	noisy, stopNoisy := context.WithCancel(ctx)
	defer stopNoisy()
	var load sync.WaitGroup
	defer load.Wait()
	defer stopNoisy()
	var asked, served, refused atomic.Int64
	if !w.alone {
		load.Go(func() { // until the incident, it is a tenant like the others
			all := arrivals(b.Tenants-1, 1, b.Devices, b.Every, 0, begins)
			send(noisy, s.url+"/", start, all, mostNoisy, patience, func(sample) {})
		})
		load.Go(func() {
			all := arrivals(b.Tenants-1, 1, b.Devices, b.Every/time.Duration(b.Factor), begins, ends)
			send(noisy, s.url+noisyPath, start, all, mostNoisy, patience, func(one sample) {
				if one.due < counts {
					return
				}
				asked.Add(1)
				switch {
				case one.status == http.StatusOK && one.due+one.took <= ends:
					served.Add(1)
				case one.status == http.StatusServiceUnavailable:
					refused.Add(1)
				}
			})
		})
	}
	var used time.Duration
	load.Go(func() {
		at := func(d time.Duration) time.Duration {
			select {
			case <-time.After(time.Until(start.Add(d))):
			case <-ctx.Done():
			}
			return s.workerTime()
		}
		used = -at(counts)
		used += at(ends)
	})
	var mu sync.Mutex
	var victims []sample
	all := arrivals(0, b.Tenants-1, b.Devices, b.Every, 0, ends)
	send(ctx, s.url+"/", start, all, mostVictims, patience, func(one sample) {
		mu.Lock()
		defer mu.Unlock()
		if one.due -= shown; one.due >= 0 {
			victims = append(victims, one)
		}
	})
	stopNoisy()
	load.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := judge(victims, counts-shown, ends-shown)
	counted := ends - counts
	r.Utilisation = float64(used) / float64(counted) / float64(h.Seats)
	r.NoisyAsked, r.NoisyRefused = asked.Load(), refused.Load()
	r.NoisyPerSecond = float64(served.Load()) / counted.Seconds()
	return r, nil
}

// send sends arrivals when they are due, whatever the answers, and tells what became of
// each.
func send(ctx context.Context, target string, start time.Time, all []arrival, most int, patience time.Duration, tell func(sample)) {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: patience}).DialContext,
		MaxIdleConnsPerHost: most,
		DisableCompression:  true,
	}
	defer transport.CloseIdleConnections()
	due := make([]time.Duration, len(all))
	for i, a := range all {
		due[i] = a.at
	}
	loadtest.OpenLoop(ctx, start, due, most, func(n int, at time.Time) {
		one := sample{due: due[n], late: time.Since(at)}
		one.status, one.err = ask(ctx, transport, target, all[n].tenant, at.Add(patience))
		one.took = time.Since(at)
		if ctx.Err() == nil {
			tell(one)
		}
	})
}

// errGivenUp is what becomes of a request that is not answered in time.
var errGivenUp = errors.New("no answer in time")

func ask(ctx context.Context, transport http.RoundTripper, target string, tenant int, until time.Time) (status int, err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-Tenant", fmt.Sprintf("tenant-%d", tenant))
	answer, err := transport.RoundTrip(r)
	if err == nil {
		defer answer.Body.Close()
		if _, err = io.Copy(io.Discard, answer.Body); err == nil {
			return answer.StatusCode, nil
		}
	}
	if ctx.Err() != nil {
		return 0, errGivenUp
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return 0, err
}
