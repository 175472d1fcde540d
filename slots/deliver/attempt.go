package deliver

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// attempt sends h, late after its slot. It is not cut off when the Deliverer ends,
// since the receiver may have taken it.
func (d *Deliverer) attempt(url string, h *held, late time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.Timeout)
	defer cancel()
	attempt := h.Attempts + 1
	began := time.Now()
	err := d.sender.Send(ctx, &Message{
		URL: url, Config: h.Config, ID: h.ID, Requested: h.Requested, Slot: h.Due, Now: d.clock.now(), Attempt: attempt,
	})
	d.opts.Observer.Attempted(h.Config, late, time.Since(began), err)
	if err == nil {
		d.ends.add(h, ending{outcome: Delivered})
		return
	}
	e := ending{outcome: Failed, attempts: attempt, text: bounded(err.Error())}
	now, permanent := d.clock.now(), false
	e.at = now + ticks(d.backoff(attempt))
	if f, ok := errors.AsType[*Failure](err); ok {
		e.status, permanent = f.Status, f.Permanent
		if f.RetryAfter > 0 {
			e.pauseUntil = now + ticks(min(f.RetryAfter, d.opts.MaxBackoff))
			e.at = max(e.at, e.pauseUntil)
		}
	}
	if permanent || attempt >= d.opts.Attempts {
		e.outcome = Dead
	}
	d.ends.add(h, e)
}

// backoff returns after how long the next attempt may be made.
func (d *Deliverer) backoff(attempts int) time.Duration {
	wait := d.opts.Backoff
	for ; attempts > 1 && wait < d.opts.MaxBackoff; attempts-- {
		wait *= 2
	}
	return min(wait, d.opts.MaxBackoff)
}

// postpone has h booked another slot, because it is too late for this one.
func (d *Deliverer) postpone(h *held) {
	d.ends.add(h, ending{outcome: Reslotted, attempts: h.Attempts, status: h.Status, text: h.Error, at: d.clock.now() + ticks(lead)})
}

// release gives h back, for somebody else to deliver.
func (d *Deliverer) release(h *held) { d.ends.add(h, ending{outcome: released}) }

// released is the outcome of what was given back. It is told to nobody.
const released Outcome = "released"

// bounded returns text as it is kept of a failure: in one line, and not too long.
func bounded(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= slots.MaxErrorLen {
		return text
	}
	return strings.ToValidUTF8(text[:slots.MaxErrorLen-3], "") + "..."
}

// ending is what is to be written of a delivery that is over for now.
type ending struct {
	outcome          Outcome
	attempts, status int
	text             string
	at               plan.Ticks // for another slot
	pauseUntil       plan.Ticks // if the receiver has asked for it
}
