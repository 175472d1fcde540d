// Package seatrest shows operators who holds seats and who waits for them, over HTTP and
// JSON: GET /admin/seats.
package seatrest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/isolate/fair"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/access"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// Path is where the handler belongs.
const Path = "/admin/seats"

// MaxTop is the most entries that each list of an answer has.
const MaxTop = 100

// defaultTop is how many they have if a request does not say.
const defaultTop = 10

// Seats is what GET /admin/seats answers. Spans of time are in seconds.
type Seats struct {
	// Isolation says that seats are asked for; all else is empty if it is false.
	Isolation bool `json:"isolation"`
	// Seats are given out at present, of which Busy are held. Kept are free though
	// somebody waits who may have more: others are likely to need them. Waiting
	// counts requests.
	Seats   int `json:"seats"`
	Busy    int `json:"busy"`
	Kept    int `json:"kept"`
	Waiting int `json:"waiting"`
	// Tenants are those that are known: active, or lately.
	Tenants int `json:"tenants"`
	// Started and Refused count requests since the process began.
	Started uint64 `json:"started"`
	Refused uint64 `json:"refused"`
	// Canary is what it measures; null if it is off.
	Canary *Canary `json:"canary"`
	// BySeatTime and ByRefusals are the tenants of most, the first one first.
	BySeatTime []Tenant `json:"bySeatTime"`
	ByRefusals []Tenant `json:"byRefusals"`
	// Behind is who waited longest behind whom in the last minutes.
	Behind []Behind `json:"behind"`
}

// Canary is what a well-behaved tenant finds in the last minute.
type Canary struct {
	// Ratio is (TypicalSeconds + WaitSeconds) / TypicalSeconds: 1 is perfect
	// isolation, 0 is not known.
	Ratio          float64 `json:"isolationRatio"`
	WaitSeconds    float64 `json:"waitP99Seconds"`
	TypicalSeconds float64 `json:"typicalSeconds"`
	Probes         int     `json:"probes"`
	Refused        int     `json:"refused"`
}

// Tenant is one of those that are known. What it counts begins when it became that.
type Tenant struct {
	Tenant        string  `json:"tenant"`
	Plan          string  `json:"plan"`
	Busy          int     `json:"busy"`
	Waiting       int     `json:"waiting"`
	Cap           int     `json:"cap"`
	Share         int     `json:"share"`
	Demand        float64 `json:"demand"`
	SeatSeconds   float64 `json:"seatSeconds"`
	WaitedSeconds float64 `json:"waitedSeconds"`
	Refused       uint64  `json:"refused"`
}

// Behind says for how long requests of one tenant waited while another held seats. What
// is a minute old counts by half. ErrorSeconds is by how much it may be too great.
type Behind struct {
	Waiter        string  `json:"waiter"`
	Holder        string  `json:"holder"`
	WaitedSeconds float64 `json:"waitedSeconds"`
	ErrorSeconds  float64 `json:"errorSeconds"`
}

// Options configure the handler. The zero value is ready to use.
type Options struct {
	// Admin says who is answered: the answer names tenants. Nil is everybody.
	Admin *access.Guard
	// Canary, if set, returns what measures the isolation; nil if nothing does at
	// present.
	Canary func() *isolate.Canary
}

// New returns the handler. now returns the seats; nil if none are asked for. A nil o is
// the zero Options. It is safe for simultaneous use.
func New(now func() *isolate.Isolator, o *Options) http.Handler {
	var opts Options
	if o != nil {
		opts = *o
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, refused := opts.Admin.Admit(w, r); refused != nil {
			httpanswer.Problem{Status: refused.Status, Detail: refused.Detail}.Write(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			httpanswer.Problem{Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not allowed here."}.Write(w, r)
			return
		}
		top, err := topOf(r)
		if err != nil {
			httpanswer.Problem{Status: http.StatusBadRequest, Detail: err.Error()}.Write(w, r)
			return
		}
		body, err := json.Marshal(read(now(), &opts, top))
		if err != nil { // strings and finite numbers always encode
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(append(body, '\n'))
	})
}

// topOf returns how many entries r wants.
func topOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("top")
	if text == "" {
		return defaultTop, nil
	}
	top, err := strconv.Atoi(text)
	if err != nil || top < 0 || top > MaxTop {
		return 0, fmt.Errorf("top: %.20q is not allowed; 0 to %d is", text, MaxTop)
	}
	return top, nil
}

func read(i *isolate.Isolator, o *Options, top int) Seats {
	if i == nil {
		return Seats{BySeatTime: []Tenant{}, ByRefusals: []Tenant{}, Behind: []Behind{}}
	}
	s := i.Snapshot(top)
	all := Seats{
		Isolation: true,
		Seats:     s.Seats, Busy: s.Busy, Kept: s.Held, Waiting: s.Waiting, Tenants: s.Tenants,
		Started: s.Started, Refused: s.Refused,
		BySeatTime: tenants(s.BySeatTime), ByRefusals: tenants(s.ByRefusals), Behind: []Behind{},
	}
	for _, b := range s.Behind {
		all.Behind = append(all.Behind, Behind{
			Waiter: rules.DescribeKey(b.Waiter), Holder: rules.DescribeKey(b.Holder),
			WaitedSeconds: seconds(b.Waited), ErrorSeconds: seconds(b.Error),
		})
	}
	if o.Canary != nil {
		if c := o.Canary(); c != nil {
			r := c.Reading()
			all.Canary = &Canary{
				Ratio: math.Round(r.Ratio*1000) / 1000, WaitSeconds: seconds(r.Wait), TypicalSeconds: seconds(r.Typical),
				Probes: r.Probes, Refused: r.Refused,
			}
		}
	}
	return all
}

func tenants(some []fair.Tenant) []Tenant {
	all := make([]Tenant, len(some))
	for i, t := range some {
		all[i] = Tenant{
			Tenant: rules.DescribeKey(t.ID), Plan: t.Plan, Busy: t.Busy, Waiting: t.Waiting, Cap: t.Cap, Share: t.Share,
			Demand: math.Round(t.Demand*1000) / 1000, SeatSeconds: seconds(t.SeatTime), WaitedSeconds: seconds(t.Waited), Refused: t.Refused,
		}
	}
	return all
}

// seconds are exact to the microsecond.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }
