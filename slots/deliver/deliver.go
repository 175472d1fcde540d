// Package deliver tells receivers that an event's slot has come: it takes what is
// due out of a [slots.Outbox], waits for its instant, and hands it to a [Sender].
//
// # What is promised
//
// An event is delivered at least once, and never before its slot, by the database's
// clock. Many Deliverers may share an Outbox: a delivery is leased to one of them,
// and a lease that no longer covers a whole attempt is not used. So in normal running
// an event is delivered once. One that dies leaves its leases to the others, when
// they end.
//
// What is late is never made up for in a hurry. An event that could not be sent
// within a small grace after its slot, be it that nobody was there to do it, that too
// many receivers were slow, or that its config is paused, is booked another slot, by
// [slots.Scheduler.Postpone]; and so is one whose attempt has failed, after a while
// that grows with each. So the limit that a config has holds for what its receiver
// sees, over outages and retries: in a window there are no more than its maximum, but
// for those that the grace, or the network, has held back.
//
// # What a receiver can say
//
// An attempt may fail for good, and after so many an event becomes a dead letter,
// which is kept until somebody redrives it. A receiver that asks to be left alone for
// some time, as by Retry-After, has its config paused for that long: it would be
// wrong to send it other events, or to book any for that time. A pause, by whomever, is
// in force on every node within a second. An event that is cancelled or moved in the
// last half second before its slot may be delivered all the same.
package deliver

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Sender makes attempts. It is safe for simultaneous use.
type Sender interface {
	// Send makes one attempt, and returns nil if the receiver has taken the
	// message. The error may be a *[Failure]. It ends with ctx.
	Send(ctx context.Context, m *Message) error
}

// Message is what a receiver is told.
type Message struct {
	URL        string
	Config, ID string
	// Requested is the instant that was asked for, Slot that which was given, and
	// Now that of the attempt, all by the database's clock.
	Requested, Slot, Now plan.Ticks
	Attempt              int // from 1
}

// Failure is an attempt that has failed, and what follows from that.
type Failure struct {
	// Status is what the receiver has answered; 0 if nothing.
	Status int
	// Permanent: there is no use in another attempt.
	Permanent bool
	// RetryAfter is for how long the receiver wants to be left alone; 0 if it has
	// not said so.
	RetryAfter time.Duration
	Err        error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Options configure a Deliverer. The zero value is ready to use.
type Options struct {
	// Timeout bounds an attempt. Defaults to 10s.
	Timeout time.Duration
	// Attempts is how many are made before an event becomes a dead letter.
	// Defaults to 12.
	Attempts int
	// Backoff is after how long the slot of a second attempt lies at the earliest.
	// For each further one it is twice as long, and at most MaxBackoff, which also
	// bounds what a receiver can ask for. Default to 5s and 1h: 12 attempts take
	// two and a half hours.
	Backoff, MaxBackoff time.Duration
	// Grace is how late an event may be sent that is not postponed. Defaults to a
	// hundredth of its config's window, of 50ms at least and 2s at most.
	Grace time.Duration
	// InFlight is how many attempts are under way at a time, and InFlightPerConfig
	// how many of one config. Default to 1024 and 256.
	InFlight, InFlightPerConfig int
	// Poll is how often the outbox is looked at if nothing says that there is
	// something. Defaults to 200ms.
	Poll time.Duration
	// Bell, if not nil, is what says so.
	Bell *Bell
	// Observer, if not nil, is told what happens.
	Observer Observer
	// Logger is told what goes wrong here, not at receivers. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Outcome is what has become of an event that was due.
type Outcome string

const (
	Delivered  Outcome = "delivered"
	Failed     Outcome = "failed"     // and another attempt will be made
	Dead       Outcome = "dead"       // and none will
	Reslotted  Outcome = "reslotted"  // it was too late, and no attempt was made
	Unsettled  Outcome = "unsettled"  // what has become of it could not be written, so it may be delivered again
	Superseded Outcome = "superseded" // it was moved, cancelled or leased to another meanwhile
)

// Observer is told what a Deliverer does. Its methods must return soon, and are safe
// for simultaneous use.
type Observer interface {
	// Attempted: an attempt has ended. late is how long after the slot it began.
	Attempted(config string, late, took time.Duration, err error)
	// Ended: something has become of an event.
	Ended(config string, o Outcome)
}

// Bell wakes a Deliverer when a Scheduler of the same process, whose Observer it is,
// has booked what is due soon. It is ready to use, and for one Deliverer.
type Bell struct {
	once sync.Once
	c    chan struct{}
}

func (b *Bell) rung() chan struct{} {
	b.once.Do(func() { b.c = make(chan struct{}, 1) })
	return b.c
}

// Grouped implements slots.Observer.
func (b *Bell) Grouped(g *slots.Group) {
	if g.Due == 0 || g.Err != nil {
		return
	}
	select {
	case b.rung() <- struct{}{}:
	default:
	}
}

// How far ahead deliveries are claimed, and how many at once and in all; what a lease
// has to cover besides the wait and the attempt; and how far ahead of now a late
// event's new slot lies at least, so that it can be claimed in time.
const (
	ahead    = 500 * time.Millisecond
	maxClaim = 500
	maxHeld  = 4096
	maxGrace = 2 * time.Second
	minGrace = 50 * time.Millisecond
	settling = 2 * time.Second
	lead     = 250 * time.Millisecond
)

// Deliverer delivers what is due.
type Deliverer struct {
	slots  *slots.Scheduler
	outbox slots.Outbox
	sender Sender
	opts   Options

	clock   clock
	room    chan struct{} // as many as attempts are under way
	held    atomic.Int64  // deliveries that are leased
	senders sync.WaitGroup
	ends    *settler

	configs map[string]*config // of the loop alone
}

// New returns a Deliverer of what s puts into o, which must be the Ledger that s
// books in. A nil opts is the zero Options. It does nothing until Run.
func New(s *slots.Scheduler, o slots.Outbox, sender Sender, opts *Options) *Deliverer {
	d := &Deliverer{slots: s, outbox: o, sender: sender, configs: make(map[string]*config)}
	if opts != nil {
		d.opts = *opts
	}
	d.opts.setDefaults()
	d.room = make(chan struct{}, d.opts.InFlight)
	d.ends = &settler{d: d, wake: make(chan struct{}, 1)}
	return d
}

func (o *Options) setDefaults() {
	orDefault(&o.Timeout, 10*time.Second)
	orDefault(&o.Attempts, 12)
	orDefault(&o.Backoff, 5*time.Second)
	orDefault(&o.MaxBackoff, time.Hour)
	orDefault(&o.InFlight, 1024)
	orDefault(&o.InFlightPerConfig, 256)
	orDefault(&o.Poll, 200*time.Millisecond)
	if o.Bell == nil {
		o.Bell = new(Bell)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observer == nil {
		o.Observer = deafObserver{}
	}
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

type deafObserver struct{}

func (deafObserver) Attempted(string, time.Duration, time.Duration, error) {}
func (deafObserver) Ended(string, Outcome)                                 {}

// Run delivers until ctx ends. Then it gives back what is not due yet, and waits for
// the attempts that are under way. It is to be called once.
func (d *Deliverer) Run(ctx context.Context) {
	var settling sync.WaitGroup
	settling.Go(d.ends.run)
	defer func() {
		d.senders.Wait()
		d.ends.close()
		settling.Wait()
	}()
	var failing bool
	for ctx.Err() == nil {
		more, err := d.round(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if !failing {
				d.opts.Logger.Warn("slots that are due cannot be read; deliveries wait", "error", err)
			}
			failing = true
		case err == nil && failing:
			d.opts.Logger.Info("slots that are due can be read again")
			failing = false
		}
		if more && err == nil {
			continue
		}
		pause := time.NewTimer(d.opts.Poll)
		select {
		case <-ctx.Done():
		case <-d.opts.Bell.rung():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// round claims what is due soon, and then what is overdue, and sees to both. more
// says that there may be more of either.
func (d *Deliverer) round(ctx context.Context) (more bool, err error) {
	full, err := d.claim(ctx, -maxGrace, ahead, maxHeld)
	if err != nil {
		return false, err
	}
	overdue, err := d.claim(ctx, -forever, -maxGrace, maxHeld/2)
	return full || overdue, err
}

// forever is longer than anything is overdue.
const forever = 100 * 366 * 24 * time.Hour

// claim claims what is due from one time after now until before another, as long as
// not more than most are held, and starts a sender for each delivery.
func (d *Deliverer) claim(ctx context.Context, from, until time.Duration, most int) (full bool, err error) {
	limit := min(maxClaim, most-int(d.held.Load()))
	if limit <= 0 {
		return false, nil
	}
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	length := ahead + maxGrace + d.opts.Timeout + settling
	began := time.Now()
	claimed, now, err := d.outbox.Claim(asking, slots.Claim{
		From: ticks(from), Until: ticks(until), Limit: limit, Lease: newLease(), For: ticks(length),
	})
	if err != nil {
		return false, err
	}
	d.clock.learn(now, time.Now())
	// The lease was made after began, so it ends later than this.
	end := began.Add(length)
	for _, c := range claimed {
		h := &held{Delivery: c, end: end}
		d.held.Add(1)
		config, err := d.config(asking, c.Config, now)
		if err != nil {
			d.release(h)
			continue
		}
		d.senders.Go(func() { d.see(ctx, config, h) })
	}
	d.forget()
	return len(claimed) == limit, nil
}

// newLease returns a number that nobody else has, but for one chance in 2^63.
func newLease() int64 { return 1 + rand.Int64N(1<<63-1) }

func ticks(d time.Duration) plan.Ticks { return plan.Ticks(d / time.Microsecond) }

// held is a delivery that is leased until end, which is by the monotonic clock.
type held struct {
	slots.Delivery
	end time.Time
}

// config is what is known of a config whose deliveries are due.
type config struct {
	url    string // "" is none
	paused plan.Ticks
	grace  time.Duration
	room   chan struct{}
	read   time.Time
}

// config returns what holds for deliveries of a config, as of a moment ago at most.
func (d *Deliverer) config(ctx context.Context, name string, now plan.Ticks) (config, error) {
	known := d.configs[name]
	if known != nil && time.Since(known.read) < freshness {
		return *known, nil
	}
	c, _, err := d.outbox.Config(ctx, name)
	if err != nil {
		return config{}, err
	}
	fresh := config{paused: c.PausedUntil, read: time.Now()}
	if v, ok := c.Current(now); ok {
		fresh.url, fresh.grace = v.DeliverTo, d.opts.Grace
		if fresh.grace <= 0 {
			window := time.Duration(v.Window) * time.Microsecond
			fresh.grace = min(max(window/100, minGrace), maxGrace)
		}
	}
	if known == nil {
		fresh.room = make(chan struct{}, d.opts.InFlightPerConfig)
	} else {
		fresh.room = known.room
	}
	d.configs[name] = &fresh
	return fresh, nil
}

// freshness is for how long a config is believed to be as it was read.
const freshness = 250 * time.Millisecond

// maxConfigs bounds how many configs are remembered of which nothing is under way.
const maxConfigs = 1000

func (d *Deliverer) forget() {
	for name, c := range d.configs {
		if len(d.configs) <= maxConfigs {
			return
		}
		if len(c.room) == 0 {
			delete(d.configs, name)
		}
	}
}

// see sees to one delivery: it is sent at its instant, or postponed.
func (d *Deliverer) see(ctx context.Context, c config, h *held) {
	switch {
	case c.url == "":
		d.ends.add(h, ending{outcome: Dead, text: "the config delivers no more"})
		return
	case h.Due < c.paused:
		d.postpone(h) // to the end of the pause, or later
		return
	}
	if wait := d.clock.until(h.Due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			d.release(h)
			return
		}
	}
	deadline := time.NewTimer(d.clock.until(h.Due + ticks(c.grace)))
	defer deadline.Stop()
	for _, room := range []chan struct{}{c.room, d.room} {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			select {
			case room <- struct{}{}:
				defer func() { <-room }()
			case <-deadline.C:
				d.postpone(h)
				return
			case <-ctx.Done():
				d.release(h)
				return
			}
		}
	}
	late := -d.clock.until(h.Due)
	switch {
	case late > c.grace:
		d.postpone(h)
	case time.Until(h.end) < d.opts.Timeout+settling/2:
		d.release(h)
	default:
		d.attempt(c.url, h, late)
	}
}
