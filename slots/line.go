package slots

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stint-dev/stint/slots/plan"
)

// job is what one call asks of a config.
type job struct {
	bookings    []*booking
	alterations []*alteration // of one event each
	change      *change

	// err is why nothing of it was done, or may have been. done is closed when it
	// and everything in the parts above is final.
	err  error
	done chan struct{}
}

type booking struct {
	Request
	result *Result
}

// alteration cancels an event or, if to is not nil, moves it. postponed says how, if
// that is because it was not delivered.
type alteration struct {
	id        string
	to        *Request
	postponed *Postponement
	event     Event
	err       error
}

type change struct {
	apply  func(now plan.Ticks, c *Config) error
	config Config
	err    error
}

func (j *job) size() int { return max(1, len(j.bookings)+len(j.alterations)) }

// ids are those that j is about.
func (j *job) ids() []string {
	ids := make([]string, 0, j.size())
	for _, b := range j.bookings {
		ids = append(ids, b.ID)
	}
	for _, a := range j.alterations {
		ids = append(ids, a.id)
	}
	return ids
}

// line is where the jobs of one config wait.
type line struct {
	config  string
	waiting []*job
	size    int // of all that wait
	running bool

	// What the last transaction has read is used by the next one, if the
	// revision is still the same.
	cached   *Config
	timeline *plan.Timeline
}

// do runs j in one of the next transactions. If it returns the error of ctx, j may
// be done all the same.
func (s *Scheduler) do(ctx context.Context, config string, j *job) error {
	if err := CheckName(config); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	j.done = make(chan struct{})
	if err := s.join(config, j); err != nil {
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Scheduler) join(config string, j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	l := s.lines[config]
	if l == nil {
		l = &line{config: config}
		s.lines[config] = l
	}
	if l.size > 0 && l.size+j.size() > s.opts.MaxWaiting {
		return ErrBusy
	}
	l.waiting = append(l.waiting, j)
	l.size += j.size()
	if !l.running {
		l.running = true
		s.running.Go(func() { s.run(l) })
	}
	return nil
}

// run runs transactions until nobody waits.
func (s *Scheduler) run(l *line) {
	for {
		group := s.next(l)
		if group == nil {
			return
		}
		s.transact(l, group)
		for _, j := range group {
			close(j.done)
		}
		// Those who have just been served run first: if they ask again, they go
		// together in the next transaction.
		runtime.Gosched()
	}
}

// maxLines bounds how many configs are remembered while nobody asks for them.
const maxLines = 1000

// leave forgets l if nothing is known of its config, or another line if there are
// too many. It is called with s.mu held.
func (s *Scheduler) leave(l *line) {
	l.running, l.waiting = false, nil
	if l.cached == nil {
		delete(s.lines, l.config)
	}
	for config, other := range s.lines {
		if len(s.lines) <= maxLines {
			return
		}
		if !other.running {
			delete(s.lines, config)
		}
	}
}

// next takes the next group out of the line. If there is none, whoever joins next
// must run.
func (s *Scheduler) next(l *line) (group []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	altered := make(map[string]bool)
	for len(l.waiting) > 0 && (size == 0 || size+l.waiting[0].size() <= s.opts.MaxGroup) {
		again := func(a *alteration) bool { return altered[a.id] }
		if slices.ContainsFunc(l.waiting[0].alterations, again) {
			break // one transaction changes an event once
		}
		for _, a := range l.waiting[0].alterations {
			altered[a.id] = true
		}
		group = append(group, l.waiting[0])
		size += l.waiting[0].size()
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
	}
	l.size -= size
	if group == nil {
		s.leave(l)
	}
	return group
}

// transact runs group in one transaction.
func (s *Scheduler) transact(l *line, group []*job) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
	defer cancel()
	g := newGroupTx(l, group, nil)
	err := g.run(ctx, s.ledger)
	if fault, ok := errors.AsType[*LedgerError](err); ok && fault.Sent && ctx.Err() == nil {
		// It may have been committed. Whoever tries again finds what was done. If
		// that fails, too, it still may have been.
		again := newGroupTx(l, group, g.mine)
		if again.run(ctx, s.ledger) == nil {
			g, err = again, nil
		}
	}
	done := Group{Config: l.config, Took: time.Since(began), Err: err}
	if err == nil {
		done = g.done
		done.Config, done.Took = l.config, time.Since(began)
	}
	for _, j := range group {
		if j.change == nil || j.change.err == nil {
			j.err = err
		}
		done.Events += j.size()
	}
	if s.opts.Observer != nil {
		s.opts.Observer.Grouped(&done)
	}
}
