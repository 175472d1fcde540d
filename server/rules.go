package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/telemetry"
)

// Of the rules table.
const (
	// maxRows is the most rows that are read. More rules than that there cannot be.
	maxRows = 10_000
	rowPage = 1000
	// readTime bounds one reading of the table.
	readTime = 10 * time.Second
	// slowestAsk is the longest pause between two tries while the table does not answer.
	slowestAsk = time.Second
	// maxRowProblems is the most problems that are logged and kept of one reading.
	maxRowProblems = 100
)

// RuleTable keeps up with a table of rules. It is safe for simultaneous use.
type RuleTable struct {
	// Source is the table.
	Source rules.Source

	every  time.Duration
	logger *slog.Logger

	mu     sync.Mutex
	status RuleTableStatus

	// file is the configuration that the rules of the table stand behind.
	file    atomic.Pointer[config.File]
	viewing sync.Mutex
	made    config.Table
	view    tableView
}

// tableView is what View has returned last, and what of.
type tableView struct {
	of   *config.File
	read tableRows
	made *rules.TableView
}

// View returns what is made of the table as it is now, behind the rules of the file
// that is in force.
func (t *RuleTable) View(ctx context.Context) (*rules.TableView, error) {
	t.viewing.Lock()
	defer t.viewing.Unlock()
	file := t.file.Load()
	version, err := t.Source.Version(ctx)
	if err != nil {
		return nil, err
	}
	if t.view.made != nil && t.view.of == file && t.view.read.version == version {
		return t.view.made, nil
	}
	read, err := t.read(ctx)
	if err != nil {
		return nil, err
	}
	t.view = tableView{file, read, t.made.View(file, read.rows)}
	return t.view.made, nil
}

// Try returns what would be made of rows, which are in the order of their ids, in
// place of those of the table.
func (t *RuleTable) Try(rows []rules.Row) *rules.TableView {
	if len(rows) == 1 { // which is no reason to forget the others
		return new(config.Table).View(t.file.Load(), rows)
	}
	t.viewing.Lock()
	defer t.viewing.Unlock()
	return t.made.View(t.file.Load(), rows)
}

// RuleTableStatus is what is known of a table of rules.
type RuleTableStatus struct {
	// Version is that of the rows which were read last, and Read when they were.
	Version int64
	Read    time.Time
	// Rows are all of them, InForce those whose rules hold, Disabled those that are
	// switched off, and Refused those that are wrong.
	Rows, InForce, Disabled, Refused int
	// Problems are what is wrong with rows, and at most 100 of them.
	Problems []rules.RowProblem
	// Err is why the table could not be read the last time it was tried, and Since
	// when that began. The rules that were read last hold meanwhile.
	Err   error
	Since time.Time
}

// Status returns what is known of the table.
func (t *RuleTable) Status() RuleTableStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// tableRows are the rows of a table at one version.
type tableRows struct {
	rows    []rules.Row
	version int64
	// beyond is the id of the first row that was not read, 0 if all were.
	beyond int64
}

// readTries is how often the table is read again because somebody has changed it
// meanwhile. Then what was read is taken as it is, and soon read again.
const readTries = 5

// read returns all rows, and the version of them.
func (t *RuleTable) read(ctx context.Context) (read tableRows, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	now, err := t.Source.Version(ctx)
	for try := 0; err == nil; try++ {
		read.version = now
		if err = t.list(ctx, &read); err != nil {
			break
		}
		if now, err = t.Source.Version(ctx); err == nil && (now == read.version || try == readTries) {
			return read, nil
		}
	}
	return tableRows{}, err
}

// list reads the rows, page by page.
func (t *RuleTable) list(ctx context.Context, read *tableRows) error {
	read.rows, read.beyond = nil, 0
	for after := int64(0); ; after = read.rows[len(read.rows)-1].ID {
		page, err := t.Source.List(ctx, after, rowPage)
		if err != nil {
			return err
		}
		read.rows = append(read.rows, page...)
		switch {
		case len(read.rows) > maxRows:
			read.beyond = read.rows[maxRows].ID
			read.rows = read.rows[:maxRows]
			return nil
		case len(page) < rowPage:
			return nil
		}
	}
}

// follow sends the rows to changed whenever they are others than those of
// version, until ctx ends.
func (t *RuleTable) follow(ctx context.Context, version int64, changed chan<- tableRows) {
	told := make(chan struct{}, 1)
	if w, ok := t.Source.(rules.Watcher); ok {
		var watching sync.WaitGroup
		defer watching.Wait()
		watching.Go(func() { t.watch(ctx, w, told) })
	}
	for pause := t.every; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-told:
		}
		read, err := t.readIfNot(ctx, version)
		if ctx.Err() != nil {
			return
		}
		pause = t.note(err)
		if err != nil || read.version == version {
			continue
		}
		select {
		case changed <- read:
			version = read.version
		case <-ctx.Done():
			return
		}
	}
}

// readIfNot reads the table unless it is of this version.
func (t *RuleTable) readIfNot(ctx context.Context, version int64) (tableRows, error) {
	asking, cancel := context.WithTimeout(ctx, slowestAsk)
	defer cancel()
	if now, err := t.Source.Version(asking); err != nil || now == version {
		return tableRows{version: now}, err
	}
	return t.read(ctx)
}

// watch makes told known of what w tells, until ctx ends.
func (t *RuleTable) watch(ctx context.Context, w rules.Watcher, told chan<- struct{}) {
	for ctx.Err() == nil {
		w.Watch(ctx, func() {
			select {
			case told <- struct{}{}:
			default: // it is known
			}
		})
		select {
		case <-time.After(slowestAsk): // meanwhile the table is polled
		case <-ctx.Done():
		}
	}
}

// note takes note of how a try to read the table went, logs when that changes, and
// returns how long to wait before the next one.
func (t *RuleTable) note(err error) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.status.Err
	t.status.Err = err
	switch {
	case err != nil && was == nil:
		t.status.Since = time.Now()
		t.logger.Warn("the rules table does not answer; the rules that were read last stay in force", "error", err)
	case err == nil && was != nil:
		t.logger.Info("the rules table answers again", "after", time.Since(t.status.Since).Round(time.Millisecond).String())
		t.status.Since = time.Time{}
	}
	if err != nil {
		return min(slowestAsk, 4*t.every)
	}
	return t.every
}

// loaded takes note of what rows have been made of.
func (t *RuleTable) loaded(from tableRows, set *rules.Set, problems []rules.RowProblem) {
	status := RuleTableStatus{Version: from.version, Read: time.Now(), Rows: len(from.rows)}
	for i := range from.rows {
		if !from.rows[i].Enabled {
			status.Disabled++
		}
	}
	for _, r := range set.Rules() {
		if r.Row != 0 {
			status.InForce++
		}
	}
	status.Refused = status.Rows - status.Disabled - status.InForce
	if from.beyond != 0 {
		problems = append([]rules.RowProblem{{Row: from.beyond, Problem: rules.Problem{
			Message: fmt.Sprintf("it and all rows behind it are left out: a table has at most %d rows, those that are not enabled among them", maxRows),
		}}}, problems...)
	}
	for i, p := range problems {
		if i == maxRowProblems {
			t.logger.Error("rules table: there are more problems", "not_shown", len(problems)-i)
			break
		}
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		t.logger.Log(context.Background(), level, "rules table: "+p.Message, "row", p.Row, "field", p.Path)
	}
	status.Problems = problems[:min(len(problems), maxRowProblems)]
	t.mu.Lock()
	defer t.mu.Unlock()
	status.Err, status.Since = t.status.Err, t.status.Since
	t.status = status
}

// ErrRulesStale: the rules table does not answer, and its last rules stay in force.
var ErrRulesStale = errors.New("the rules table does not answer; the rules that were read last stay in force")

// ready returns nil, or an error that wraps ErrRulesStale. A nil t has no table.
func (t *RuleTable) ready() error {
	if t == nil {
		return nil
	}
	if s := t.Status(); s.Err != nil {
		return fmt.Errorf("%w, since %s: %w", ErrRulesStale, s.Since.UTC().Format(time.RFC3339), s.Err)
	}
	return nil
}

// show adds what is known of the table to the metrics.
func (t *RuleTable) show(m *telemetry.Metrics) {
	for _, gauge := range []struct {
		name, help string
		value      func(s RuleTableStatus) float64
	}{
		{"stint_rules_table_current", "1 if the rules table answers, 0 if the rules that were read last stay in force.", func(s RuleTableStatus) float64 {
			if s.Err != nil {
				return 0
			}
			return 1
		}},
		{"stint_rules_table_rows", "Rows of the rules table.", func(s RuleTableStatus) float64 { return float64(s.Rows) }},
		{"stint_rules_table_rows_in_force", "Rows of the rules table whose rules hold.", func(s RuleTableStatus) float64 { return float64(s.InForce) }},
		{"stint_rules_table_rows_refused", "Rows of the rules table that are enabled, and wrong.", func(s RuleTableStatus) float64 { return float64(s.Refused) }},
	} {
		m.Gauge(gauge.name, gauge.help, func() float64 { return gauge.value(t.Status()) })
	}
}
