package slots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/stint-dev/stint/slots/plan"
)

// An Outbox is a [Ledger] that keeps what is to be delivered, too: a [Delivery] for
// each event that was booked while its config delivered, until it has been. The
// transactions of a Scheduler write them, with the slots that they belong to; Claim
// and Settle change them without a config's lock, so that nobody who books waits
// for a delivery.
//
// A Delivery is leased to one caller at a time, on the database's clock. Whoever has
// lost a lease changes nothing by it any more.
//
// The transactions of an Outbox are each an [OutboxTx]. slots/slotstest has the
// conformance suite, and package slots/deliver is what delivers.
type Outbox interface {
	Ledger
	// Claim leases deliveries and returns them in the order of Due, and the clock
	// by which they are leased. It passes over those that are dead, leased to
	// somebody, or just being changed.
	Claim(ctx context.Context, c Claim) ([]Delivery, plan.Ticks, error)
	// Settle says what has become of deliveries of a config, no two of them one
	// event's. It passes over those whose Lease is no longer theirs.
	Settle(ctx context.Context, config string, s []Settled) error
	// Dead returns the dead letters of a config in the order of when they died and
	// then of their ids: those after one, unless it is nil, and at most limit.
	Dead(ctx context.Context, config string, after *Delivery, limit int) ([]Delivery, error)
}

// OutboxTx is a transaction of an Outbox. What it is to change of deliveries are
// Changes.Put and Changes.Removed.
type OutboxTx interface {
	Tx
	// Deliveries returns those of ids that are in the outbox, and keeps others from
	// changing them until the transaction ends.
	Deliveries(ids []string) (map[string]Delivery, error)
}

// Delivery is an event that is to be delivered at its slot, or could not be.
type Delivery struct {
	Config, ID string
	// Requested is the instant that was asked for, and Due that of the slot.
	Requested, Due plan.Ticks
	// Attempts is how many have been made and have failed, Status what the last
	// of them was answered, 0 if nothing, and Error what was wrong with it, in at
	// most MaxErrorLen bytes.
	Attempts, Status int
	Error            string
	// Lease names the lease, if there is one.
	Lease int64
	// Dead is since when nobody tries any more; 0 if somebody does.
	Dead plan.Ticks
}

// MaxErrorLen is how many bytes of an error a Delivery keeps.
const MaxErrorLen = 256

// Claim says which deliveries are wanted: those with now+From <= Due < now+Until, of
// which at most Limit, for a time of For. Lease is a number that nobody else has,
// and not 0.
type Claim struct {
	From, Until plan.Ticks
	Limit       int
	Lease       int64
	For         plan.Ticks
}

// Settled says what has become of a delivery that was claimed by Lease. Of one that
// is Dead, Attempts, Status and Error are kept.
type Settled struct {
	ID               string
	Lease            int64
	Fate             Fate
	Attempts, Status int
	Error            string
}

// Fate is what becomes of a delivery.
type Fate int

const (
	// Delivered: it is over, and leaves the outbox.
	Delivered Fate = iota
	// Died: nobody tries again, unless it is redriven.
	Died
	// Released: it was not tried, and somebody else may at once.
	Released
)

// MaxURLLen is how many bytes the URL of a receiver may have.
const MaxURLLen = 2048

// CheckURL returns an error that says what is allowed if text is not the URL of a
// receiver.
func CheckURL(text string) error {
	const allowed = "an http or https URL is, such as https://example.com/hooks/stint"
	if len(text) > MaxURLLen {
		return fmt.Errorf("a URL of %d bytes is not allowed; at most %d are", len(text), MaxURLLen)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("this is not a URL; " + allowed) // it may have a secret in it
	case u.User != nil:
		return errors.New("a user or password in the URL is not allowed: what is sent is signed")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return errors.New("this is not the URL of a receiver; " + allowed)
	case u.Fragment != "":
		return errors.New("a # in the URL is not allowed; it would not be sent")
	}
	return nil
}

// ErrNoOutbox: the ledger cannot keep what is to be delivered.
var ErrNoOutbox = errors.New("this store keeps nothing that is to be delivered")

// ErrLost: the delivery is no longer the caller's to decide on. It was delivered,
// moved or cancelled, or its lease has ended; or it is not dead.
var ErrLost = errors.New("the delivery is not held any more")

// delivered reports whether c delivers, or ever did.
func (c *Config) delivered() bool {
	for _, v := range c.Versions {
		if v.DeliverTo != "" {
			return true
		}
	}
	return false
}

// Postponement asks for another slot for an event that was not delivered at its own.
type Postponement struct {
	ID string
	// Lease is that by which the caller has the delivery; 0 if it is dead, and is
	// to be tried anew.
	Lease int64
	// At is the instant that the slot must not lie before.
	At plan.Ticks
	// Attempts, Status and Error are what the delivery keeps.
	Attempts, Status int
	Error            string
}

// Postponed answers a Postponement. Err is ErrLost, or a *[Refused] if there will
// never be a slot.
type Postponed struct {
	Event
	Err error
}

// Postpone books other slots for events that were not delivered at theirs, in one
// transaction. An event keeps the instant that was asked for, and is not bound by a
// maximum delay or horizon. The results are in the order of ps.
func (s *Scheduler) Postpone(ctx context.Context, config string, ps []Postponement) ([]Postponed, error) {
	results, j := make([]Postponed, len(ps)), new(job)
	of := make(map[string]int) // by id
	for i, p := range ps {
		err := cmp.Or(check(Request{ID: p.ID, At: p.At}), checkPostponement(p))
		if _, twice := of[p.ID]; twice {
			err = ErrLost
		}
		if results[i].Err = err; err == nil {
			of[p.ID] = i
			j.alterations = append(j.alterations, &alteration{id: p.ID, to: &Request{ID: p.ID, At: p.At}, postponed: &p})
		}
	}
	if len(j.alterations) == 0 {
		return results, nil
	}
	if err := s.do(ctx, config, j); err != nil {
		return nil, err
	}
	for _, a := range j.alterations {
		results[of[a.id]] = Postponed{a.event, a.err}
	}
	return results, nil
}

func checkPostponement(p Postponement) error {
	if len(p.Error) > MaxErrorLen {
		return fmt.Errorf("the error has %d bytes; at most %d are allowed", len(p.Error), MaxErrorLen)
	}
	return nil
}

// Redrive has dead letters of a config tried anew, from now on. Those that are not
// dead, or not known, have ErrLost.
func (s *Scheduler) Redrive(ctx context.Context, config string, ids []string) ([]Postponed, error) {
	ps := make([]Postponement, len(ids))
	for i, id := range ids {
		ps[i] = Postponement{ID: id, At: plan.MinInstant}
	}
	return s.Postpone(ctx, config, ps)
}

// Hold pauses a config until an instant, unless it is paused for longer already.
func (s *Scheduler) Hold(ctx context.Context, config string, until plan.Ticks) (Config, error) {
	if until < plan.MinInstant || until > plan.MaxInstant {
		return Config{}, fmt.Errorf("until: %d is out of bounds; years 1 to 9999 are allowed", until)
	}
	return s.change(ctx, config, false, func(_ plan.Ticks, c *Config) error {
		c.PausedUntil = max(c.PausedUntil, until)
		return nil
	})
}

// readOutbox reads what is to be delivered of what is altered.
func (g *groupTx) readOutbox() error {
	if !g.config.delivered() {
		return nil
	}
	var ids []string
	for _, j := range g.group {
		for _, a := range j.alterations {
			ids = append(ids, a.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	tx, ok := g.tx.(OutboxTx)
	if !ok {
		return ErrNoOutbox
	}
	outbox, err := tx.Deliveries(ids)
	g.outbox = outbox
	return err
}

// holds looks whether the delivery of a's event is its caller's to postpone.
func (g *groupTx) holds(a *alteration) bool {
	d, has := g.outbox[a.id]
	dead := a.postponed.Lease == 0
	switch {
	case has && dead && d.Dead != 0, has && !dead && d.Dead == 0 && d.Lease == a.postponed.Lease:
		return true
	case g.tried[a.id] == a.event:
		return false // the try before has done it
	}
	a.err = ErrLost
	return false
}

// deliver notes that e is to be delivered, if it is.
func (g *groupTx) deliver(w *wish, e Event) {
	if w.move == nil && g.current.DeliverTo == "" {
		return
	}
	d := Delivery{ID: e.ID, Requested: e.Requested, Due: e.At}
	if w.move != nil {
		if _, has := g.outbox[e.ID]; !has {
			return
		}
		if p := w.move.postponed; p != nil {
			d.Attempts, d.Status, d.Error = p.Attempts, p.Status, p.Error
		}
	}
	g.changes.Put = append(g.changes.Put, d)
	if g.done.Due == 0 || d.Due < g.done.Due {
		g.done.Due = d.Due
	}
}
