// Package strategies measures ways to limit requests in PostgreSQL side by
// side: three that teams write themselves, and Stint's. All of them work on the
// same server, under the same load, in turn.
package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/limit"
)

// Options say what to measure.
type Options struct {
	// URL leads to a PostgreSQL database in which schemas may be made. Each
	// measurement has one of its own, which is gone afterwards. Required.
	URL string
	// OpenStore makes the tables of Stint's store at a URL and opens it.
	// Without it Stint is not measured.
	OpenStore func(ctx context.Context, url string) (limit.Store, error)
	// Duration is how long one measurement lasts. Defaults to 5s.
	Duration time.Duration
	// Rounds is how often everything is measured; medians are reported.
	// Defaults to 3.
	Rounds int
	// Period is how long a key must wait between two grants. Defaults to 2s.
	Period time.Duration
	// Keys is how many keys there are where they are many. Defaults to 100000.
	Keys int
	// Progress, if set, is told what is being measured.
	Progress io.Writer
}

func (o Options) withDefaults() Options {
	if o.Duration <= 0 {
		o.Duration = 5 * time.Second
	}
	if o.Rounds <= 0 {
		o.Rounds = 3
	}
	if o.Period <= 0 {
		o.Period = 2 * time.Second
	}
	if o.Keys <= 0 {
		o.Keys = 100_000
	}
	return o
}

const (
	// instances is how many takers of each strategy share the load, as so many
	// processes would.
	instances = 2
	// connections is the size of each one's pool.
	connections = 16
	// schema is where a measurement has its tables.
	schema = "stint_bench"
)

// Run measures all strategies under all workloads, round by round, so that a
// server that gets slower does so for all of them.
func Run(ctx context.Context, o *Options) (*Report, error) {
	b := bench{o.withDefaults()}
	all := published
	if b.OpenStore != nil {
		all = append(all[:len(all):len(all)], stint(b.OpenStore))
	}
	works := workloads(&b.Options)
	report := newReport(&b.Options, works, all)
	for round := range b.Rounds {
		for w, work := range works {
			for n, s := range all {
				b.tell("round %d of %d: %s: %s", round+1, b.Rounds, work.Name, s.name)
				result, err := b.run(ctx, work, s, b.URL, b.Duration, nil)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", work.Name, s.name, err)
				}
				report.Workloads[w].Strategies[n].Rounds = append(report.Workloads[w].Strategies[n].Rounds, *result)
			}
		}
	}
	for w, work := range works {
		for n, s := range all {
			b.tell("counting statements: %s: %s", work.Name, s.name)
			each, err := b.countStatements(ctx, work, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", work.Name, s.name, err)
			}
			report.Workloads[w].Strategies[n].StatementsPerDecision = each
		}
	}
	report.takeMedians()
	return report, nil
}

// bench is one Run.
type bench struct{ Options }

func (b *bench) tell(format string, args ...any) {
	if b.Progress != nil {
		fmt.Fprintf(b.Progress, format+"\n", args...)
	}
}

// countStatements runs s under work once more, through a counter. That takes
// some time itself, so this run is not measured.
func (b *bench) countStatements(ctx context.Context, work workload, s strategy) (float64, error) {
	c, err := newCounter(b.URL)
	if err != nil {
		return 0, err
	}
	defer c.close()
	var opened int64 // statements before the load
	result, err := b.run(ctx, work, s, c.URL, b.Duration, func() { opened = c.statements.Load() })
	if err != nil {
		return 0, err
	}
	return float64(c.statements.Load()-opened) / float64(max(1, result.decisions())), nil
}

// run makes a schema, opens s in it through a URL, has ready called if it is
// not nil, puts the load on s, and drops the schema.
func (b *bench) run(ctx context.Context, work workload, s strategy, through string, span time.Duration, ready func()) (result *Result, err error) {
	if err := b.exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE", "CREATE SCHEMA "+schema); err != nil {
		return nil, err
	}
	defer func() {
		dropped := b.exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		err = errors.Join(err, dropped)
	}()
	if s.schema != "" {
		if err := b.exec(ctx, "SET search_path = "+schema+", public", s.schema); err != nil {
			return nil, err
		}
	}
	at, err := inSchema(through, s.schema != "")
	if err != nil {
		return nil, err
	}
	var takers []taker
	defer func() {
		for _, t := range takers {
			t.close()
		}
	}()
	for range instances {
		t, err := s.open(ctx, at, b.Period)
		if err != nil {
			return nil, err
		}
		takers = append(takers, t)
	}
	for _, t := range takers {
		if _, err := t.take(ctx, "warm up"); err != nil {
			return nil, err
		}
	}
	if ready != nil {
		ready()
	}
	m := newMeter()
	work.run(ctx, takers, span, m)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return m.result(), nil
}

// inSchema returns url with the schema of a measurement as its search path.
// Stint's own tables must not be looked for in any other.
func inSchema(server string, public bool) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the store is not a URL such as postgres://USER@HOST/DATABASE")
	}
	path := schema
	if public {
		path += ",public"
	}
	q := u.Query()
	q.Set("search_path", path)
	q.Set("pool_max_conns", fmt.Sprint(connections))
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// exec runs statements on a connection of their own.
func (b *bench) exec(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, b.URL)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
