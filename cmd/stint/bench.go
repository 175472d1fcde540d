package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/loadtest"
	"github.com/stint-dev/stint/loadtest/isolation"
	"github.com/stint-dev/stint/loadtest/slotbench"
	"github.com/stint-dev/stint/loadtest/strategies"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/store/postgres"
)

type benchCommand struct {
	Scenario   scenarioCommand   `cmd:"" help:"Run a scenario file: start instances, put a load on them, and check what must hold."`
	Strategies strategiesCommand `cmd:"" help:"Measure ways to limit requests in PostgreSQL, Stint's and three others, side by side."`
	Slots      benchSlotsCommand `cmd:"" help:"Measure ways to book slots in PostgreSQL, Stint's and one by counters, side by side."`
	Isolation  isolationCommand  `cmd:"" help:"Replay one tenant's devices asking 1500 times as often, and measure what the others notice, with and without seats."`
}

type scenarioCommand struct {
	File  string  `arg:"" type:"path" help:"The scenario file."`
	Store string  `env:"STINT_STORE" placeholder:"URL" help:"Where the instances count, as in a rules file; env:NAME keeps a password out of the list of processes. Default: an SQLite file that is gone afterwards."`
	Speed float64 `placeholder:"N" help:"How many times faster than written the load comes, in place of the file's compress."`
	JSON  string  `type:"path" placeholder:"FILE" help:"Write the report as JSON."`
	Chart string  `type:"path" placeholder:"FILE" help:"Draw requests, grants and latency over time as SVG."`
}

func (scenarioCommand) Help() string {
	return `Runs stint serve, as many of it as the scenario says, sends it the scenario's
requests when they are due, whatever the answers, and prints what was seen and
which checks hold. Progress is shown on standard error.

    stint bench scenario scenarios/hot-key.yaml
    stint bench scenario --speed 10 --chart chart.svg scenarios/partner-portal.yaml

Exit codes: 0 all checks hold, 1 a check failed, 2 the file has problems.`
}

func (c scenarioCommand) Run(ctx context.Context, std streams) error {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return server.ConfigError{{File: c.File, Message: "the file cannot be read: " + err.Error()}}
	}
	scenario, problems := loadtest.Parse(c.File, data, c.Speed)
	if scenario == nil {
		return server.ConfigError(problems)
	}
	report, err := loadtest.Run(ctx, scenario, &loadtest.Options{Store: c.Store, OpenStore: openStore, Progress: std.err})
	if err != nil {
		return err
	}
	if err := errors.Join(report.WriteTable(std.out), save(c.JSON, report.WriteJSON), save(c.Chart, report.WriteChart)); err != nil {
		return err
	}
	if failed := report.Failed(); len(failed) > 0 {
		return fmt.Errorf("%s: these checks failed: %s", c.File, strings.Join(failed, ", "))
	}
	return nil
}

type strategiesCommand struct {
	Store    string        `required:"" env:"STINT_STORE" placeholder:"URL" help:"A PostgreSQL database in which schemas may be made, such as postgres://USER@HOST/DATABASE; env:NAME keeps a password out of the list of processes."`
	Duration time.Duration `default:"5s" help:"How long one measurement lasts (default: ${default})."`
	Rounds   int           `default:"3" help:"How often everything is measured; the medians are reported (default: ${default})."`
	JSON     string        `type:"path" placeholder:"FILE" help:"Write the report as JSON."`
	Chart    string        `type:"path" placeholder:"FILE" help:"Draw the medians as SVG."`
}

func (strategiesCommand) Help() string {
	return `Measures, on the PostgreSQL server that is named and in a schema that is gone
afterwards: SELECT FOR UPDATE NOWAIT, an exclusion constraint over ranges of
time, INSERT ON CONFLICT DO UPDATE WHERE, and Stint in mode exact.

    stint bench strategies --store postgres://postgres@localhost/test`
}

func (c strategiesCommand) Run(ctx context.Context, std streams) error {
	store, err := postgresURL(c.Store)
	if err != nil {
		return err
	}
	report, err := strategies.Run(ctx, &strategies.Options{
		URL: store, OpenStore: migrateAndOpen, Duration: c.Duration, Rounds: c.Rounds, Progress: std.err,
	})
	if err != nil {
		return err
	}
	return errors.Join(report.WriteTable(std.out), save(c.JSON, report.WriteJSON), save(c.Chart, report.WriteChart))
}

type benchSlotsCommand struct {
	Store   string `required:"" env:"STINT_STORE" placeholder:"URL" help:"A PostgreSQL database in which schemas may be made, such as postgres://USER@HOST/DATABASE; env:NAME keeps a password out of the list of processes."`
	Events  int    `default:"20000" placeholder:"N" help:"How many events are booked for one instant (default: ${default})."`
	Callers []int  `default:"32,512" placeholder:"N,..." help:"How many book them at the same time (default: ${default})."`
	Rounds  int    `default:"3" help:"How often everything is measured; the medians are reported (default: ${default})."`
	JSON    string `type:"path" placeholder:"FILE" help:"Write the report as JSON."`
	Chart   string `type:"path" placeholder:"FILE" help:"Draw the medians as SVG."`
}

func (benchSlotsCommand) Help() string {
	return `Books events for one instant on the PostgreSQL server that is named, in a schema
that is gone afterwards: by a counter for each window that is locked NOWAIT, and by
Stint's ledger. Prints events per second, slots left empty, refusals, and how many
events the worst window holds.

    stint bench slots --store postgres://postgres@localhost/test`
}

func (c benchSlotsCommand) Run(ctx context.Context, std streams) error {
	store, err := postgresURL(c.Store)
	if err != nil {
		return err
	}
	report, err := slotbench.Run(ctx, &slotbench.Options{
		URL: store, OpenLedger: openLedger, Events: c.Events, Callers: c.Callers, Rounds: c.Rounds, Progress: std.err,
	})
	if err != nil {
		return err
	}
	return errors.Join(report.WriteTable(std.out), save(c.JSON, report.WriteJSON), save(c.Chart, report.WriteChart))
}

type isolationCommand struct {
	Handler   []string      `enum:"short,longer,noisy-long,cpu" default:"short,longer,noisy-long,cpu" placeholder:"NAME,..." help:"What the service does: short waits 50ms, longer 200ms, noisy-long 50ms but 5s for the noisy tenant, cpu computes for 20ms (default: ${default})."`
	Spread    string        `enum:"tenth,exponential" default:"tenth" placeholder:"NAME" help:"How far the others' requests are from that: tenth, give or take a tenth, or exponential, most shorter and a few much longer (default: ${default})."`
	Seats     int           `default:"32" placeholder:"N" help:"How many requests run at once; with cpu it is the number of cores (default: ${default})."`
	Guarantee []int         `default:"0,90" placeholder:"N,..." help:"Settings of isolation.guarantee to measure (default: ${default})."`
	Tenants   int           `default:"20" placeholder:"N" help:"How many tenants there are, the noisy one among them (default: ${default})."`
	Devices   int           `default:"24" placeholder:"N" help:"How many devices each has (default: ${default})."`
	Every     time.Duration `default:"30s" help:"How often a device asks (default: ${default})."`
	Factor    int           `default:"1500" placeholder:"N" help:"How many times as often those of the noisy tenant ask (default: ${default})."`
	Duration  time.Duration `default:"10s" help:"How long the incident lasts in one measurement (default: ${default})."`
	Settle    time.Duration `default:"0s" help:"How much of that is left out of the figures, at its beginning (default: ${default})."`
	Rounds    int           `default:"1" help:"How often everything is measured; the medians are reported (default: ${default})."`
	Full      bool          `help:"Take 3 rounds of a minute each, about 80 minutes with everything."`
	JSON      string        `type:"path" placeholder:"FILE" help:"Write the report as JSON."`
	Chart     string        `type:"path" placeholder:"FILE" help:"Draw the others' latency and goodput over time as SVG."`
}

func (isolationCommand) Help() string {
	return `Replays an incident: 20 tenants have 24 devices each, which ask once in 30 s, until
a fault makes those of one tenant ask 50 times a second. Everything goes over HTTP on
loopback to a service that can do so many things at once. Prints what the other
tenants notice, compared with being alone: with Stint's seats in front, with nothing,
and with one queue for all.

    stint bench isolation
    stint bench isolation --handler noisy-long --spread exponential --every 2400ms --factor 120 --chart chart.svg

Exit codes: 0 done, 1 the others were refused in spite of their seats, or the service
did not collapse without isolation, so that the load was too small to show anything.`
}

func (c isolationCommand) Run(ctx context.Context, std streams) error {
	o := isolation.Options{
		Tenants: c.Tenants, Devices: c.Devices, Every: c.Every, Factor: c.Factor, Duration: c.Duration, Settle: c.Settle,
		Rounds: c.Rounds, Guarantees: c.Guarantee, Progress: std.err,
	}
	if c.Full {
		o.Duration, o.Rounds = time.Minute, 3
	}
	for _, h := range isolation.Handlers(c.Seats) {
		if slices.Contains(c.Handler, h.Name) {
			h.Exponential = c.Spread == "exponential"
			o.Handlers = append(o.Handlers, h)
		}
	}
	report, err := isolation.Run(ctx, &o)
	if err != nil {
		return err
	}
	if err := errors.Join(report.WriteTable(std.out), save(c.JSON, report.WriteJSON), save(c.Chart, report.WriteChart)); err != nil {
		return err
	}
	if failed := report.Failed(); len(failed) > 0 {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}

// postgresURL returns what a command's --store names, which must be PostgreSQL.
func postgresURL(text string) (string, error) {
	store, err := config.Store(text, "")
	if err != nil {
		return "", fmt.Errorf("--store: %w", err)
	}
	if !strings.HasPrefix(store, "postgres") {
		return "", errors.New("--store: a PostgreSQL database is needed, such as postgres://USER@HOST/DATABASE")
	}
	return store, nil
}

// openLedger makes the tables of Stint's PostgreSQL store and opens its ledger.
func openLedger(ctx context.Context, url string) (slots.Ledger, func() error, error) {
	if _, err := postgres.Migrate(ctx, url); err != nil {
		return nil, nil, err
	}
	s, err := postgres.Open(ctx, url, &postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return s.Ledger(), s.Close, nil
}

// migrateAndOpen makes the tables of Stint's PostgreSQL store and opens it.
func migrateAndOpen(ctx context.Context, url string) (limit.Store, error) {
	if _, err := postgres.Migrate(ctx, url); err != nil {
		return nil, err
	}
	return openStore(ctx, url)
}

// openStore opens the store that a configuration would name by url.
func openStore(ctx context.Context, url string) (limit.Store, error) {
	s, err := server.StoreOf(stores, url)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, url, slog.New(slog.DiscardHandler))
}

// save writes a file, unless it has no name.
func save(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
