package slots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/slots/plan"
)

// Options configure a Scheduler. The zero value is ready to use.
type Options struct {
	// Timeout bounds one transaction of the ledger. Defaults to 5s.
	Timeout time.Duration
	// MaxGroup is how many events go together in one transaction at most, but
	// for a single call that has more. Defaults to 4096.
	MaxGroup int
	// MaxWaiting is how many events of a config may wait at a time; more are
	// refused with ErrBusy. Defaults to 100,000.
	MaxWaiting int
	// Observer, if not nil, is told what happens.
	Observer Observer
}

// Observer is told what a Scheduler does. Its methods must return soon.
type Observer interface {
	// Grouped: a transaction has ended.
	Grouped(g *Group)
}

// Group is what went together in one transaction.
type Group struct {
	Config string
	// Events is how many were asked about, and the others what became of them;
	// 0 if Err is not nil.
	Events                                      int
	Booked, Repeated, Refused, Cancelled, Moved int
	// Last is the latest slot that was booked; 0 if none was.
	Last plan.Ticks
	// Due is the earliest slot that was booked for what is to be delivered; 0 if
	// none was.
	Due  plan.Ticks
	Took time.Duration
	Err  error
}

// ErrBusy: too many events wait for the ledger already.
var ErrBusy = errors.New("too many events wait for the ledger")

// Scheduler books slots in a Ledger, which others may use as well. While one
// transaction of a config is under way those who ask wait, and all that wait go
// together in the next one. It is safe for simultaneous use.
type Scheduler struct {
	ledger Ledger
	opts   Options

	mu      sync.Mutex
	lines   map[string]*line
	closed  bool
	running sync.WaitGroup
}

// New returns a Scheduler. A nil o is the zero Options.
func New(l Ledger, o *Options) *Scheduler {
	s := &Scheduler{ledger: l, lines: make(map[string]*line)}
	if o != nil {
		s.opts = *o
	}
	if s.opts.Timeout <= 0 {
		s.opts.Timeout = 5 * time.Second
	}
	if s.opts.MaxGroup <= 0 {
		s.opts.MaxGroup = 4096
	}
	if s.opts.MaxWaiting <= 0 {
		s.opts.MaxWaiting = 100_000
	}
	return s
}

// Close waits for the transactions that are under way. The Ledger stays open.
func (s *Scheduler) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// Book books the earliest slot for one event. The error is the Result's Err, or
// that the ledger did not answer: then the event may have been booked, and the
// same request, made again, says so.
func (s *Scheduler) Book(ctx context.Context, config string, r Request) (Result, error) {
	results, err := s.BookAll(ctx, config, []Request{r})
	if err != nil {
		return Result{}, err
	}
	return results[0], results[0].Err
}

// BookAll books slots for many events, in one transaction. The results are in the
// order of the requests, each with its own Err.
func (s *Scheduler) BookAll(ctx context.Context, config string, rs []Request) ([]Result, error) {
	j, results := new(job), make([]Result, len(rs))
	for i, r := range rs {
		if err := check(r); err != nil {
			results[i].Err = err
			continue
		}
		j.bookings = append(j.bookings, &booking{Request: r, result: &results[i]})
	}
	if err := s.do(ctx, config, j); err != nil {
		return nil, err
	}
	return results, nil
}

func check(r Request) error {
	if err := CheckID(r.ID); err != nil {
		return err
	}
	if r.At < plan.MinInstant || r.At > plan.MaxInstant {
		return errors.New("the requested time is out of bounds; years 1 to 9999 are allowed")
	}
	if r.MaxDelay < 0 {
		return fmt.Errorf("the maximum delay is %d microseconds; 0 or more are allowed", r.MaxDelay)
	}
	return nil
}

// Cancel gives the slot of an event back, once. It returns the event as it was;
// one that had been cancelled before stays as it is.
func (s *Scheduler) Cancel(ctx context.Context, config, id string) (Event, error) {
	return s.alter(ctx, config, &alteration{id: id})
}

// Reschedule books another slot for an event, at r.At or later, and gives its slot
// back, both or neither. An event that is booked for r.At already stays, and one
// whose slot is the earliest that it could get keeps it.
func (s *Scheduler) Reschedule(ctx context.Context, config string, r Request) (Event, error) {
	if err := check(r); err != nil {
		return Event{}, err
	}
	return s.alter(ctx, config, &alteration{id: r.ID, to: &r})
}

func (s *Scheduler) alter(ctx context.Context, config string, a *alteration) (Event, error) {
	if err := CheckID(a.id); err != nil {
		return Event{}, err
	}
	if err := s.do(ctx, config, &job{alterations: []*alteration{a}}); err != nil {
		return Event{}, err
	}
	return a.event, a.err
}

// Configure makes v the version of a config that holds from v.From on, or from now
// if that is later. It makes the config if there is none. What is booked stays
// where it is. The error says what is not allowed.
func (s *Scheduler) Configure(ctx context.Context, config string, v Version) (Config, error) {
	for field, d := range map[string]plan.Ticks{"max delay": v.MaxDelay, "horizon": v.Horizon} {
		if d < 0 {
			return Config{}, fmt.Errorf("%s: %d microseconds is not allowed; 0, which is any time, or more is", field, d)
		}
	}
	if v.DeliverTo != "" {
		if _, ok := s.ledger.(Outbox); !ok {
			return Config{}, fmt.Errorf("deliver to: %w", ErrNoOutbox)
		}
		if err := CheckURL(v.DeliverTo); err != nil {
			return Config{}, fmt.Errorf("deliver to: %w", err)
		}
	}
	var made Version
	return s.change(ctx, config, true, func(now plan.Ticks, c *Config) error {
		if made.Max != 0 && slices.ContainsFunc(c.Versions, made.Equal) {
			return nil // tried before, and it was done
		}
		made = v
		made.Made, made.From = now, max(v.From, now)
		c.Versions = append(c.Versions[:len(c.Versions):len(c.Versions)], made)
		return nil
	})
}

// Pause keeps a config from booking anything before an instant; 0 ends a pause.
func (s *Scheduler) Pause(ctx context.Context, config string, until plan.Ticks) (Config, error) {
	if until != 0 && (until < plan.MinInstant || until > plan.MaxInstant) {
		return Config{}, fmt.Errorf("until: %d is out of bounds; years 1 to 9999 are allowed, or 0 to end a pause", until)
	}
	return s.change(ctx, config, false, func(_ plan.Ticks, c *Config) error {
		c.PausedUntil = until
		return nil
	})
}

func (s *Scheduler) change(ctx context.Context, config string, create bool, f func(now plan.Ticks, c *Config) error) (Config, error) {
	if err := CheckName(config); err != nil {
		return Config{}, err
	}
	if create {
		if err := s.ledger.Create(ctx, config); err != nil {
			return Config{}, err
		}
	}
	c := &change{apply: f}
	if err := s.do(ctx, config, &job{change: c}); err != nil {
		return Config{}, err
	}
	return c.config, c.err
}

// MaxQuote is how many requests one Quote may be for.
const MaxQuote = 1_000_000

// Quote says what n requests like r would get now, and books nothing. r needs no
// ID. n is from 1 to MaxQuote. Delays count from r.At, as an Event's does.
func (s *Scheduler) Quote(ctx context.Context, config string, r Request, n int) (plan.Quote, error) {
	r.ID = "quote"
	if err := cmp.Or(CheckName(config), check(r)); err != nil {
		return plan.Quote{}, err
	}
	if n < 1 || n > MaxQuote {
		return plan.Quote{}, fmt.Errorf("n: %d is out of bounds; 1 to %d is allowed", n, MaxQuote)
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return plan.Quote{}, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	tx, err := s.ledger.Begin(ctx, config, nil, nil)
	if err != nil {
		return plan.Quote{}, err
	}
	defer tx.Rollback()
	c := tx.Config()
	if len(c.Versions) == 0 {
		return plan.Quote{}, ErrNoConfig
	}
	t, err := newTimeline(tx.Now(), c)
	if err != nil {
		return plan.Quote{}, err
	}
	w := newWish(tx.Now(), c, r)
	q, err := t.Quote(tx.Now(), w.planned, n, tx)
	if q.Granted > 0 {
		shift := w.planned.At - r.At
		q.First, q.Median, q.Last = q.First+shift, q.Median+shift, q.Last+shift
	}
	if q.Refused != "" {
		q.Refused = w.reason(q.Refused, q.Next.At)
	}
	return q, err
}

func newTimeline(now plan.Ticks, c *Config) (*plan.Timeline, error) {
	versions := make([]plan.Version, len(c.Versions))
	for i, v := range c.Versions {
		versions[i] = v.Version
	}
	return plan.New(now, versions...)
}
