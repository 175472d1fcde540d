// Package loadtest puts a load on Stint and says whether it kept its promises.
//
// A [Scenario] file says what to run, which requests to send it and when, and
// what must hold. The processes are real ones. The load is open: when each
// request is due is computed beforehand, and a server that gets slow is not
// spared. An oracle, the pure algorithm over the same arrivals, tells how many
// grants there should be. What was seen becomes a [Report].
package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit"
)

// Options say how to run a scenario.
type Options struct {
	// Store is where the instances count. Defaults to an SQLite file that is
	// gone afterwards.
	Store string
	// OpenStore opens Store, for the check of spacing to look into it.
	// Required for a scenario that has this check.
	OpenStore func(ctx context.Context, store string) (limit.Store, error)
	// Binary is the stint that serves. Defaults to this program.
	Binary string
	// Progress, if set, is told each second how far the load has come.
	Progress io.Writer
}

// run is one Run.
type run struct {
	scenario  *Scenario
	options   Options
	dir       string
	recorder  *recorder
	instances []*instance
	meter     *meter
}

// Run runs a scenario and reports what was seen. The error says why it could
// not be run; a check that failed is none.
func Run(ctx context.Context, s *Scenario, o *Options) (*Report, error) {
	r := &run{scenario: s, options: *o, meter: newMeter(s.duration())}
	defer r.clean()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	var before work
	var err error
	if isPostgres(r.options.Store) {
		if before, err = workOf(ctx, r.options.Store, false); err != nil {
			return nil, err
		}
	}
	for number := range int(s.Instances.Count) {
		i, err := r.start(ctx, number)
		if err != nil {
			return nil, err
		}
		r.instances = append(r.instances, i)
	}
	report, err := r.measure(ctx)
	if err != nil {
		return nil, err
	}
	r.stop(report)
	if isPostgres(r.options.Store) {
		after, err := workOf(ctx, r.options.Store, true)
		if err != nil {
			return nil, err
		}
		report.countWork(before, after, r.recorder.reads)
	}
	report.judge(s)
	return report, nil
}

// prepare finds the store and the binary, and starts the recorder.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "stint-scenario-"); err != nil {
		return err
	}
	if r.options.Binary == "" {
		if r.options.Binary, err = os.Executable(); err != nil {
			return err
		}
	}
	if r.options.Store == "" {
		r.options.Store = "sqlite:" + filepath.Join(r.dir, "stint.db")
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if r.options.Store, err = config.Store(r.options.Store, here); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if r.options.Store == "memory" && r.scenario.Instances.Count > 1 {
		return errors.New("store: memory is not shared between instances; name a database, or sqlite:FILE")
	}
	r.recorder, err = r.record(ctx)
	return err
}

func (r *run) record(ctx context.Context) (*recorder, error) {
	if !r.scenario.Checks.Spacing {
		return listen(nil, 0, nil)
	}
	if r.options.Store == "memory" {
		return nil, errors.New("store: spacing is checked in the store, and memory cannot be looked into; name a database, or sqlite:FILE")
	}
	keyOf, err := r.scenario.keyReader()
	if err != nil {
		return nil, err
	}
	store, err := r.options.OpenStore(ctx, r.options.Store)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	recorder, err := listen(store, r.scenario.policy().Pace(1), keyOf)
	if err != nil {
		store.Close()
		return nil, err
	}
	return recorder, nil
}

// measure puts the load on the instances and reports what was seen from outside.
func (r *run) measure(ctx context.Context) (*Report, error) {
	schedule := r.scenario.schedule()
	report := newReport(r.scenario, schedule)
	before, err := scrape(ctx, r.instances)
	if err != nil {
		return nil, err
	}
	start := time.Now().Add(50 * time.Millisecond)
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var running, watcher sync.WaitGroup
	watcher.Go(func() { r.watch(watching, start, report) })
	for n, i := range r.instances {
		running.Go(func() { newSender(&r.scenario.Load, i.target, r.meter, r.recorder.began).run(ctx, start, schedule[n]) })
	}
	running.Wait()
	report.Took = time.Since(start)
	stopWatching()
	watcher.Wait()
	if ctx.Err() != nil {
		return nil, errors.New("interrupted; the processes have been stopped")
	}
	report.tally(r.meter)
	after, err := scrape(ctx, r.instances)
	if err != nil {
		report.InstanceFailures = append(report.InstanceFailures, err.Error())
	} else if r.instances[0].metrics != "" {
		report.countMetrics(after.minus(before))
	}
	if r.scenario.Checks.Spacing {
		report.Spacing = r.recorder.spacing()
	}
	return report, nil
}

// watch writes each second how far the load has come.
func (r *run) watch(ctx context.Context, start time.Time, report *Report) {
	if r.options.Progress == nil {
		return
	}
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		requests, granted, denied, failed, late, p99 := r.meter.soFar()
		fmt.Fprintf(r.options.Progress, "%v of %v: %d of %d requests, %d granted, %d denied, %d failed, %d late, p99 %v\n",
			time.Since(start).Round(time.Second), report.Duration.Round(time.Second), requests, report.Requests, granted, denied, failed, late, p99)
	}
}

// stop stops the instances, and notes those that have ended by themselves.
func (r *run) stop(report *Report) {
	var stopping sync.WaitGroup
	for _, i := range r.instances {
		if i.hasEnded() {
			report.InstanceFailures = append(report.InstanceFailures, fmt.Sprintf("instance %d ended by itself (%v); its last words:\n%s", i.number, i.end, i.output))
			continue
		}
		stopping.Go(i.stop)
	}
	stopping.Wait()
	r.instances = nil
	r.release()
}

// release closes the recorder and its store.
func (r *run) release() {
	if r.recorder == nil {
		return
	}
	r.recorder.close()
	if r.recorder.store != nil {
		r.recorder.store.Close()
		r.recorder.store = nil
	}
}

// clean leaves nothing behind.
func (r *run) clean() {
	for _, i := range r.instances {
		i.stop()
	}
	r.release()
	os.RemoveAll(r.dir)
}
