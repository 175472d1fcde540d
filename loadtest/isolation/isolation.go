// Package isolation replays an incident: a fault makes the devices of one tenant ask
// many times as often as before. It measures what the other tenants notice, alone and
// beside it: with Stint's seats, with nothing, and with one queue for all.
//
// Everything goes over HTTP on loopback. The load is an open loop, and what a request
// took is counted from when it was due, so no wait is left out.
package isolation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// Options say what to replay. The zero value is the incident: 20 tenants with 24
// devices each, which ask once in 30s, until those of one tenant ask 50 times a second.
type Options struct {
	// Tenants is how many there are, the noisy one among them, 2 or more. Devices
	// is how many each has. Default to 20 and 24.
	Tenants, Devices int
	// Every is how often a device asks. Defaults to 30s.
	Every time.Duration
	// Factor is how many times as often the noisy one's devices ask. Defaults to
	// 1500.
	Factor int
	// Duration is how long the incident lasts in each measurement. Before it there
	// is a quarter of that without it. Defaults to 10s.
	Duration time.Duration
	// Settle is how much of Duration is left out of the figures, at its beginning: at
	// first the noisy one's requests, which began together, end together.
	Settle time.Duration
	// Learning is how long the tenants have been there before that, where seats
	// are kept for what they lately needed. Defaults to 10s.
	Learning time.Duration
	// Rounds is how often everything is measured; the medians are reported.
	// Defaults to 1.
	Rounds int
	// Guarantees are the settings of isolation.guarantee to measure, in per cent.
	// Defaults to 0 and 90.
	Guarantees []int
	// Handlers is what the service does. Defaults to Handlers(32).
	Handlers []Handler
	// Patience is how long a caller waits for an answer, in addition to what the
	// longest request takes. Defaults to 5s.
	Patience time.Duration
	// Progress, if set, is told what is being measured.
	Progress io.Writer
}

// Handler is what a service does for a request, and how many it can serve at once.
type Handler struct {
	Name string
	// Seats is how many requests can run at once.
	Seats int
	// Victims and Noisy are how long a request runs, of the others and of the noisy
	// tenant, give or take a tenth: requests that all took the same time would end
	// in step, which those of no service do.
	Victims, Noisy time.Duration
	// Exponential says that the others' requests, not those of the noisy tenant, are
	// spread more widely than that: exponentially, with a mean of Victims, so most
	// are short and a few are long.
	Exponential bool
	// Spin says that it computes for that long, on one idle core, rather than wait.
	Spin bool
}

// Handlers returns those that are measured by default, with that many seats for those
// that wait, and one for each core for those that compute.
func Handlers(seats int) []Handler {
	const short, long = 50 * time.Millisecond, 200 * time.Millisecond
	cores := runtime.NumCPU()
	return []Handler{
		{Name: "short", Seats: seats, Victims: short, Noisy: short},
		{Name: "longer", Seats: seats, Victims: long, Noisy: long},
		{Name: "noisy-long", Seats: seats, Victims: short, Noisy: 5 * time.Second},
		{Name: "cpu", Seats: cores, Victims: 20 * time.Millisecond, Noisy: 20 * time.Millisecond, Spin: true},
	}
}

func (o Options) withDefaults() Options {
	o.Tenants = cmp.Or(o.Tenants, 20)
	o.Devices = cmp.Or(o.Devices, 24)
	o.Every = cmp.Or(o.Every, 30*time.Second)
	o.Factor = cmp.Or(o.Factor, 1500)
	o.Duration = cmp.Or(o.Duration, 10*time.Second)
	o.Learning = cmp.Or(o.Learning, 10*time.Second)
	o.Rounds = cmp.Or(o.Rounds, 1)
	o.Patience = cmp.Or(o.Patience, 5*time.Second)
	if o.Guarantees == nil {
		o.Guarantees = []int{0, 90}
	}
	if o.Handlers == nil {
		o.Handlers = Handlers(32)
	}
	return o
}

// check returns what is wrong with o.
func (o *Options) check() error {
	switch {
	case o.Tenants < 2 || o.Tenants > 10_000:
		return fmt.Errorf("tenants: %d; 2 to 10000 are allowed", o.Tenants)
	case o.Devices < 1 || o.Devices > 10_000:
		return fmt.Errorf("devices: %d; 1 to 10000 are allowed", o.Devices)
	case o.Every < time.Millisecond || o.Every > time.Hour:
		return fmt.Errorf("every: %v; 1ms to 1h is allowed", o.Every)
	case o.Factor < 1 || o.Factor > 1_000_000:
		return fmt.Errorf("factor: %d; 1 to 1000000 is allowed", o.Factor)
	case o.Duration < time.Second || o.Duration > time.Hour:
		return fmt.Errorf("duration: %v; 1s to 1h is allowed", o.Duration)
	case o.Settle < 0 || o.Settle > o.Duration-time.Second:
		return fmt.Errorf("settle: %v; 0s to %v is allowed, a second less than the duration", o.Settle, o.Duration-time.Second)
	case o.Rounds < 1 || o.Rounds > 100:
		return fmt.Errorf("rounds: %d; 1 to 100 are allowed", o.Rounds)
	case o.victimRate() > mostRate || o.noisyRate() > mostRate:
		return fmt.Errorf("the devices would ask %.0f times a second, the noisy ones %.0f; up to %d are allowed of each", o.victimRate(), o.noisyRate(), mostRate)
	case len(o.Guarantees) == 0 || len(o.Guarantees) > 4:
		return fmt.Errorf("guarantee: %d are given; 1 to 4 are allowed", len(o.Guarantees))
	case len(o.Handlers) == 0:
		return errors.New("handlers: none are given")
	}
	for _, g := range o.Guarantees {
		if g < 0 || g > 99 {
			return fmt.Errorf("guarantee: %d; 0 to 99 is allowed", g)
		}
	}
	for _, h := range o.Handlers {
		if h.Seats < 1 || h.Seats > 65_536 {
			return fmt.Errorf("seats: %d; 1 to 65536 are allowed", h.Seats)
		}
	}
	return nil
}

// mostRate bounds what one process sends, in requests a second.
const mostRate = 20_000

func (o *Options) victimRate() float64 {
	return float64((o.Tenants-1)*o.Devices) / o.Every.Seconds()
}

func (o *Options) noisyRate() float64 {
	return float64(o.Devices*o.Factor) / o.Every.Seconds()
}

// Run replays the incident in every way with every handler.
func Run(ctx context.Context, o *Options) (*Report, error) {
	b := bench{Options: o.withDefaults()}
	if err := b.check(); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(b.Handlers, func(h Handler) bool { return h.Spin }) {
		b.turns = calibrate()
		// What computes has its threads, and the load that comes from the same
		// process has others, as it would have in another process.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * runtime.NumCPU()))
	}
	ways := b.ways()
	report := newReport(&b.Options, ways)
	err := report.Measure(ctx, b.Progress, func(ctx context.Context, group, n int) (*Result, error) {
		return b.run(ctx, b.Handlers[group], ways[n])
	})
	return report, err
}

// bench is one Run.
type bench struct {
	Options
	turns int64 // that a core makes in a millisecond
}

// lead is how long what is shown goes on before the incident begins.
func (b *bench) lead() time.Duration { return b.Duration / 4 }
