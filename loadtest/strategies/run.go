// Package strategies measures ways to limit requests in PostgreSQL side by
// side: three that teams write themselves, and Stint's. All of them work on the
// same server, under the same load, in turn.
package strategies

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/loadtest/sidebyside"
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
	err := report.Measure(ctx, b.Progress, func(ctx context.Context, group, way int) (*Result, error) {
		return b.run(ctx, works[group], all[way], b.URL, b.Duration, nil)
	})
	if err != nil {
		return nil, err
	}
	for w, work := range works {
		for n, s := range all {
			if b.Progress != nil {
				fmt.Fprintf(b.Progress, "counting statements: %s: %s\n", work.Name, s.name)
			}
			each, err := b.countStatements(ctx, work, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", work.Name, s.name, err)
			}
			report.Groups[w].Ways[n].Median.StatementsPerDecision = each
		}
	}
	return report, nil
}

// bench is one Run.
type bench struct{ Options }

// tables is where a measurement has them.
func (b *bench) tables() sidebyside.Schema {
	return sidebyside.Schema{URL: b.URL, Name: "stint_bench"}
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

// run opens s through a URL, in a schema that is gone afterwards, has ready called if
// it is not nil, and puts the load on s.
func (b *bench) run(ctx context.Context, work workload, s strategy, through string, span time.Duration, ready func()) (result *Result, err error) {
	err = b.tables().Within(ctx, func() error {
		at, err := b.inSchema(through, s)
		if err != nil {
			return err
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
				return err
			}
			takers = append(takers, t)
		}
		for _, t := range takers {
			if _, err := t.take(ctx, "warm up"); err != nil {
				return err
			}
		}
		if ready != nil {
			ready()
		}
		m := newMeter()
		work.run(ctx, takers, span, m)
		result = m.result()
		return ctx.Err()
	}, s.schema)
	return result, err
}

// inSchema returns server, whose URL leads to the database, with the schema of a
// measurement as its search path. Stint's own tables must not be looked for in any
// other.
func (b *bench) inSchema(server string, s strategy) (string, error) {
	var after []string
	if s.schema != "" {
		after = []string{"public"}
	}
	u, err := b.tables().Path(server, after...)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("pool_max_conns", fmt.Sprint(connections))
	u.RawQuery = q.Encode()
	return u.String(), nil
}
