package deliver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// settler writes what has become of deliveries: all that have come to an end while
// it wrote the last ones go together.
type settler struct {
	d    *Deliverer
	wake chan struct{}

	mu     sync.Mutex
	ended  []*over
	closed time.Time // when the last delivery came to its end; zero before
}

// over is a delivery that is over for now.
type over struct {
	*held
	ending
}

func (s *settler) add(h *held, e ending) { s.put([]*over{{h, e}}) }

func (s *settler) put(all []*over) {
	s.mu.Lock()
	s.ended = append(s.ended, all...)
	s.mu.Unlock()
	s.ring()
}

func (s *settler) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close has run return when everything is written, or soon.
func (s *settler) close() {
	s.mu.Lock()
	s.closed = time.Now()
	s.mu.Unlock()
	s.ring()
}

// take returns all that has come to an end, and whether nothing more will.
func (s *settler) take() (all []*over, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.ended = s.ended, nil
	return all, !s.closed.IsZero()
}

// Bounds of what is written at once, of how long that may take, of the pause after
// it has failed, and of how long it is tried after the end.
const (
	maxSettled  = 1000
	settleTime  = 5 * time.Second
	retryPause  = 200 * time.Millisecond
	farewell    = 5 * time.Second
	sameWarning = 10 * time.Second
)

func (s *settler) run() {
	var warned time.Time
	for range s.wake {
		for {
			all, last := s.take()
			if len(all) == 0 {
				if last {
					return
				}
				break
			}
			failed, err := s.write(all)
			if err == nil {
				continue
			}
			if time.Since(warned) > sameWarning {
				warned = time.Now()
				s.d.opts.Logger.Warn("what has become of deliveries cannot be written", "deliveries", len(failed), "error", err)
			}
			s.again(failed)
			time.Sleep(retryPause)
		}
	}
}

// again keeps what could not be written, as long as the leases last.
func (s *settler) again(failed []*over) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	now := time.Now()
	var left []*over
	for _, o := range failed {
		if now.After(o.end) || !closed.IsZero() && now.Sub(closed) > farewell {
			s.done(o, Unsettled)
		} else {
			left = append(left, o)
		}
	}
	s.put(left)
}

// done tells what has become of a delivery.
func (s *settler) done(o *over, outcome Outcome) {
	s.d.held.Add(-1)
	if outcome != released {
		s.d.opts.Observer.Ended(o.Config, outcome)
	}
}

// write writes all, and returns those that it could not, and why.
func (s *settler) write(all []*over) (failed []*over, err error) {
	ofConfig := make(map[string][]*over)
	var configs []string
	for _, o := range all {
		if ofConfig[o.Config] == nil {
			configs = append(configs, o.Config)
		}
		ofConfig[o.Config] = append(ofConfig[o.Config], o)
	}
	for _, config := range configs {
		if e := s.pause(config, ofConfig[config]); e != nil {
			failed, err = append(failed, ofConfig[config]...), e
			continue
		}
		for some := range slices.Chunk(ofConfig[config], maxSettled) {
			left, e := s.writeSome(config, some)
			if e != nil {
				failed, err = append(failed, left...), e
			}
		}
	}
	return failed, err
}

// pause pauses a config for as long as its receiver has asked for.
func (s *settler) pause(config string, all []*over) error {
	var until plan.Ticks
	for _, o := range all {
		until = max(until, o.pauseUntil)
	}
	if until == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	_, err := s.d.slots.Hold(ctx, config, min(until, plan.MaxInstant))
	return err
}

// writeSome writes what has become of some deliveries of one config.
func (s *settler) writeSome(config string, some []*over) (failed []*over, err error) {
	var later, settled []*over
	for _, o := range some {
		if o.outcome == Failed || o.outcome == Reslotted {
			later = append(later, o)
		} else {
			settled = append(settled, o)
		}
	}
	if len(later) > 0 {
		never, e := s.postpone(config, later)
		if e != nil {
			failed, err = later, e
		}
		settled = append(settled, never...)
	}
	if len(settled) > 0 {
		if e := s.settle(config, settled); e != nil {
			failed, err = append(failed, settled...), e
		}
	}
	return failed, err
}

// postpone books other slots, and returns those for which there will never be one.
func (s *settler) postpone(config string, later []*over) (never []*over, err error) {
	ps := make([]slots.Postponement, len(later))
	for i, o := range later {
		ps[i] = slots.Postponement{
			ID: o.ID, Lease: o.Lease, At: min(o.at, plan.MaxInstant), Attempts: o.attempts, Status: o.status, Error: o.text,
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	results, err := s.d.slots.Postpone(ctx, config, ps)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		_, refused := errors.AsType[*slots.Refused](r.Err)
		switch o := later[i]; {
		case r.Err == nil:
			s.done(o, o.outcome)
		case refused:
			o.ending.outcome, o.text = Dead, bounded(r.Err.Error())
			never = append(never, o)
		default:
			s.done(o, Superseded)
		}
	}
	return never, nil
}

// fates are what becomes of a delivery by its outcome.
var fates = map[Outcome]slots.Fate{Delivered: slots.Delivered, Dead: slots.Died, released: slots.Released}

func (s *settler) settle(config string, settled []*over) error {
	all := make([]slots.Settled, len(settled))
	for i, o := range settled {
		all[i] = slots.Settled{ID: o.ID, Lease: o.Lease, Fate: fates[o.outcome], Attempts: o.attempts, Status: o.status, Error: o.text}
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := s.d.outbox.Settle(ctx, config, all); err != nil {
		return err
	}
	for _, o := range settled {
		s.done(o, o.outcome)
	}
	return nil
}
