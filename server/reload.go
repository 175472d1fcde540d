package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/lease"
	"github.com/stint-dev/stint/telemetry"
)

// lookEvery is how often the configuration file is looked at. A change is
// taken once two looks agree, so that a file which is being written is not
// read half-way; it is in force after twice this time at most.
const lookEvery = 200 * time.Millisecond

// current is the configuration in force.
type current struct {
	gate    *gate.Gate
	config  *config.Config
	path    string
	set     []string
	logger  *slog.Logger
	metrics *telemetry.Metrics

	// table is where more rules come from, nil if nowhere. rows are those of it,
	// and made is what makes rules of them.
	table *RuleTable
	rows  tableRows
	made  config.Table
}

// start puts the configuration in force that the process was started with.
func (c *current) start(ctx context.Context, limiter *limit.Limiter, s *stores) (err error) {
	file := c.config.File
	observers := telemetry.Observers{c.metrics, telemetry.NewDenialLog(c.logger, file.Log.DeniedPerSecond)}
	if top := file.Telemetry.TopClients; top.Attribute != "" {
		observers = append(observers, c.metrics.TopClients(top.Attribute, top.Size))
	}
	c.metrics.Gauge("stint_memory_keys", "Keys that this process keeps a state of.", func() float64 { return float64(s.local.Stats().Keys) })
	c.metrics.Counter("stint_memory_keys_forgotten_total", "Keys that were forgotten before their time, for memory.max_keys.", func() float64 { return float64(s.local.Stats().Forgotten) })
	if c.table != nil {
		c.table.show(c.metrics)
		if c.rows, err = c.table.read(ctx); err != nil {
			return fmt.Errorf("rules_from.store: %w", err)
		}
	}
	first := c.snapshot(c.config)
	c.metrics.Loaded(first.Rules)
	seats := c.metrics.Seats(func() *isolate.Isolator { return c.gate.Seats() })
	c.gate = gate.New(limiter, first, &gate.Options{Observer: observers, Seats: seats, Leaser: lease.New(s.shared), Logger: c.logger})
	return nil
}

// ready returns nil if the process should be sent requests, as Process.Ready does.
func (c *current) ready(ctx context.Context, shared limit.Store) error {
	switch err := shared.Ping(ctx); {
	case err == nil:
		return c.table.ready()
	case !c.needsStore():
		return fmt.Errorf("%w: %w", ErrDegraded, err)
	default:
		return err
	}
}

// follow keeps up with the file and with the table until ctx ends. The file is read rather than
// watched: that works for editors that replace it, for links that are switched
// and on every file system.
func (c *current) follow(ctx context.Context, reload <-chan struct{}) {
	changed := make(chan tableRows)
	if c.table != nil {
		var following sync.WaitGroup
		defer following.Wait()
		version := c.rows.version
		following.Go(func() { c.table.follow(ctx, version, changed) })
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	tried, _ := os.ReadFile(c.path)
	last := tried
	for {
		select {
		case <-ctx.Done():
			return
		case c.rows = <-changed:
			began := time.Now()
			c.put(c.config)
			c.logger.Info("rules table in force", "rows", len(c.rows.rows), "rules", len(c.gate.Snapshot().Rules.Rules()), "took", time.Since(began).String())
		case <-reload:
			tried, _ = os.ReadFile(c.path)
			last = tried
			c.reload()
		case <-tick.C:
			now, err := os.ReadFile(c.path)
			if err == nil && bytes.Equal(now, last) && !bytes.Equal(now, tried) {
				tried = now
				c.reload()
			}
			last = now
		}
	}
}

// reload loads the file. If it has problems, what is in force stays in force.
func (c *current) reload() {
	next, problems := config.Load(c.path, &config.Options{Set: c.set, Logger: func(config.Log) *slog.Logger { return c.logger }})
	logProblems(c.logger, problems)
	c.metrics.Reloaded(next != nil)
	if next == nil {
		c.logger.Error("configuration refused; the last good one stays in force", "file", c.path)
		return
	}
	for _, name := range c.config.File.NeedRestart(next.File) {
		c.logger.Warn("configuration changed where only a restart can apply it", "field", name)
	}
	c.put(next)
	c.config.Close()
	c.config = next
	c.logger.Info("configuration in force", "file", c.path, "rules", len(c.gate.Snapshot().Rules.Rules()))
}

// put puts a configuration in force, with the rules of the table behind its own.
func (c *current) put(next *config.Config) {
	s := c.snapshot(next)
	c.metrics.Loaded(s.Rules)
	c.gate.Swap(s)
}

func (c *current) snapshot(of *config.Config) *gate.Snapshot {
	set := of.Rules
	if c.table != nil {
		c.table.file.Store(of.File)
		var problems []rules.RowProblem
		set, problems = c.made.Compile(of.File, c.rows.rows)
		c.table.loaded(c.rows, set, problems)
	}
	return &gate.Snapshot{Rules: set, Identity: of.Identity}
}

// trusts reports whether the configuration in force trusts a peer as a proxy.
func (c *current) trusts(peer netip.Addr) bool {
	return c.gate.Snapshot().Identity.(*identity.Identifier).Trusts(peer)
}

// needsStore reports whether a rule in force refuses requests while the store
// does not answer, so that they are better sent to another process.
func (c *current) needsStore() bool {
	for _, r := range c.gate.Snapshot().Rules.Rules() {
		if !r.Shadow && r.Spec.OnStoreError == "deny" && r.Spec.Mode != "local" {
			return true
		}
	}
	return false
}

func (c *current) close() { c.config.Close() }

// watched returns the seats whose isolation is to be measured; nil if it is not.
func (c *current) watched() *isolate.Isolator {
	if i := c.gate.Snapshot().Rules.Isolation(); i == nil || !i.Canary {
		return nil
	}
	return c.gate.Seats()
}
