package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
)

// recorder is the service behind the instances. What reaches it was granted.
//
// For the check of spacing it reads, before it answers, what the store keeps
// of the key that the request was counted under. Under GCRA that says when the
// last grant was, to the microsecond and on the store's clock. It does not change
// before the next grant, which may not be made less than a period after the
// request was sent. So a reading that is done by then is that of the request's
// own grant, and two grants that the store should not both have made are seen
// as two instants that are too close, or as the same one twice. A reading that
// comes later is not used.
type recorder struct {
	url    string
	server *http.Server
	store  limit.Store // nil if spacing is not checked
	period time.Duration
	keyOf  func(r *http.Request) (string, error)
	began  time.Time
	ended  chan struct{}

	mu       sync.Mutex
	reads    int64
	instants map[string][]algo.Ticks // of grants, by store key
	late     int64                   // readings that are not used
	failure  error                   // the first
}

// sentHeader is when a request was sent, as a span since the recorder's began:
// sender and recorder go by one clock, which nobody sets.
const sentHeader = "Stint-Bench-Sent"

// age returns how long ago q was sent, and forever if it does not say.
func (r *recorder) age(q *http.Request) time.Duration {
	sent, err := time.ParseDuration(q.Header.Get(sentHeader))
	if err != nil {
		return math.MaxInt64
	}
	return time.Since(r.began) - sent
}

// listen starts a recorder on a free port of loopback.
func listen(store limit.Store, period time.Duration, keyOf func(r *http.Request) (string, error)) (*recorder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &recorder{url: "http://" + l.Addr().String(), store: store, period: period, keyOf: keyOf, began: time.Now(), ended: make(chan struct{}), instants: map[string][]algo.Ticks{}}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(r.ended)
		r.server.Serve(l) // until close
	}()
	return r, nil
}

func (r *recorder) close() {
	r.server.Close()
	<-r.ended
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.store != nil {
		key, at, err := r.lastGrant(q)
		r.note(key, at, r.age(q), err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(`{"granted":true}` + "\n"))
}

func (r *recorder) lastGrant(q *http.Request) (key string, at algo.Ticks, err error) {
	if key, err = r.keyOf(q); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), 5*time.Second)
	defer cancel()
	err = r.store.Update(ctx, []string{key}, func(_ algo.Ticks, cells []limit.Cell) error {
		at = cells[0].State.At
		return nil
	})
	return key, at, err
}

func (r *recorder) note(key string, at algo.Ticks, age time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failure = cmp.Or(r.failure, err)
		return
	}
	r.reads++
	if age >= r.period {
		r.late++
		return
	}
	r.instants[key] = append(r.instants[key], at)
}

// Spacing is how far apart the grants of a key were on the store's clock.
type Spacing struct {
	// Grants is how many reached the service, and Late how many of them so
	// late that the store may have made another one meanwhile.
	Grants int64 `json:"grants"`
	Late   int64 `json:"late"`
	// TooClose is how many were less than Period after the one before.
	TooClose int64         `json:"too_close"`
	Period   time.Duration `json:"period_ns"`
	// Smallest is the smallest distance, 0 if no key had two grants.
	Smallest time.Duration `json:"smallest_ns"`
	failure  error
}

// spacing compares all grants with those before them.
func (r *recorder) spacing() *Spacing {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Spacing{Grants: r.reads, Late: r.late, Period: r.period, failure: r.failure}
	first := true
	for _, instants := range r.instants {
		slices.Sort(instants)
		for i := 1; i < len(instants); i++ {
			gap := time.Duration(instants[i]-instants[i-1]) * time.Microsecond
			if gap < r.period {
				s.TooClose++
			}
			if first || gap < s.Smallest {
				s.Smallest, first = gap, false
			}
		}
	}
	return s
}

// promises reports whether p has the limit that the scenario is about.
func (s *Scenario) promises(p *limit.Policy) bool {
	mine, its := s.policy(), p.Algorithm
	if its == nil {
		its = algo.GCRA
	}
	return mine.Algorithm == its && mine.Limit() == p.Limit()
}

// keyReader returns a function that tells the store key under which a request
// is counted, by the rule that has the promised limit.
func (s *Scenario) keyReader() (func(*http.Request) (string, error), error) {
	text, _ := expand(s.Instances.Config, s.samples())
	file, problems := config.Parse(s.file, []byte(text))
	if file == nil {
		return nil, problems[0] // Parse has found none
	}
	set, _ := rules.Compile(file.Spec) // neither
	who, found := identity.New(file.Identity, nil)
	for _, p := range found {
		if !p.Warning {
			return nil, fmt.Errorf("%s: instances.config: identity.%w", s.file, p)
		}
	}
	who.Close() // it goes on with the keys that it has
	return func(r *http.Request) (string, error) {
		for _, m := range set.Match(nil, who.Identify(r), time.Now) {
			for _, p := range m.Policies {
				if s.promises(p) {
					return limit.StoreKey(p, m.Key), nil
				}
			}
		}
		return "", fmt.Errorf("%s %s reached the service, and no rule with the promised limit is for it", r.Method, r.URL.Path)
	}, nil
}
