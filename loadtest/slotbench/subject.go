package slotbench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// subject is one way to book slots.
type subject struct {
	name   string
	schema string // SQL that makes the tables, if open does not
	open   func(ctx context.Context, url string, o *Options) (booker, error)
}

// booker books slots in a database.
type booker interface {
	// book returns when an event is to happen that shall not before at, or
	// errRefused.
	book(ctx context.Context, id string, at plan.Ticks) (plan.Ticks, error)
	close()
}

// errRefused: there is no slot for the event.
var errRefused = errors.New("refused")

//go:embed counters.sql
var countersSchema string

// Headroom is how many windows the way by counters looks at before it refuses,
// and connections how many it books through.
const (
	headroom    = 100
	connections = 30
)

// byCounters locks the counter of one window for each event, and takes another
// window if it cannot have the lock at once.
var byCounters = subject{name: "counters", schema: countersSchema, open: func(ctx context.Context, url string, o *Options) (booker, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &counters{db, o}, nil
}}

// counters is a booker by counters.
type counters struct {
	db *pgxpool.Pool
	o  *Options
}

func (c *counters) book(ctx context.Context, id string, at plan.Ticks) (plan.Ticks, error) {
	var scheduled *plan.Ticks
	err := c.db.QueryRow(ctx, "SELECT counter_book($1, $2, $3, $4, $5)", id, at, c.o.Max, c.o.Window.Microseconds(), headroom).Scan(&scheduled)
	switch {
	case err != nil:
		return 0, err
	case scheduled == nil:
		return 0, errRefused
	}
	return *scheduled, nil
}

func (c *counters) close() { c.db.Close() }

// stint is a slots.Scheduler over Stint's ledger.
func stint(open func(ctx context.Context, url string) (slots.Ledger, func() error, error)) subject {
	return subject{name: "stint", open: func(ctx context.Context, url string, o *Options) (booker, error) {
		ledger, end, err := open(ctx, url)
		if err != nil {
			return nil, err
		}
		l := &ledgerBooker{slots.New(ledger, &slots.Options{Timeout: callTime}), end}
		version := slots.Version{Version: plan.Version{Max: o.Max, Window: plan.Ticks(o.Window.Microseconds())}}
		if _, err := l.by.Configure(ctx, config, version); err != nil {
			l.close()
			return nil, fmt.Errorf("configure: %w", err)
		}
		return l, nil
	}}
}

// config is the name of Stint's.
const config = "bench"

// ledgerBooker is Stint's booker.
type ledgerBooker struct {
	by  *slots.Scheduler
	end func() error
}

func (l *ledgerBooker) book(ctx context.Context, id string, at plan.Ticks) (plan.Ticks, error) {
	r, err := l.by.Book(ctx, config, slots.Request{ID: id, At: at})
	if _, refused := errors.AsType[*slots.Refused](err); refused {
		return 0, errRefused
	}
	return r.At, err
}

func (l *ledgerBooker) close() {
	l.by.Close()
	l.end()
}
