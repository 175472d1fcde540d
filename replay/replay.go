// Package replay runs an access log through a set of rules, as if its requests
// came now, and says what the rules would have denied.
//
// It decides by the same gate, limiter and algorithms as a live request; only
// the clock is another one, which stands where the log's lines do. So what it
// reports is what would have happened, but for two things: callers that were
// denied would have tried again, or less; and a request that waits in the line
// of a rule's queue is counted as denied, since a log does not say how long a
// caller would have had the patience.
//
// Memory does not grow with the log: what is kept for each key is bounded, and
// where a bound was reached the report says so.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// Format is how the lines of a log are written.
type Format string

const (
	// Auto finds out for each log by its first lines.
	Auto Format = "auto"
	// Combined is the common and the combined format of Apache and nginx, with
	// or without the virtual host in front.
	Combined Format = "combined"
	// JSON is one JSON object in each line.
	JSON Format = "json"
)

// Options say what to replay.
type Options struct {
	// Spec holds the rules. Required. It must not change during Run.
	Spec rules.Spec
	// Logs are the files to read, in this order, compressed by gzip or not;
	// "-" is Stdin. Required.
	Logs []string
	// Stdin is read for the log "-". Required if there is one.
	Stdin io.Reader
	// Format of all logs. Defaults to Auto.
	Format Format
	// Fields says where in a JSON line things are: name to field, with dots
	// between the names of nested fields. The names time, method, host, path,
	// ip, user, user_agent and referer are what they say and default to the
	// field of that name; any other becomes an attribute. A value that is
	// empty or "-" is none.
	Fields map[string]string
	// IPv6Prefix is how many bits of an IPv6 address make one caller.
	// Defaults to 64.
	IPv6Prefix int
	// Suggest, if set, is a share of the keys, 0 to less than 1: the report
	// then has for each rule the smallest quota that would have denied no more
	// of them.
	Suggest *float64
	// MaxKeys bounds how many keys of each rule are followed for Suggest and
	// counted one by one. Defaults to 100000.
	MaxKeys int
	// Progress, if set, is called about ten times a second.
	Progress func(Progress)
}

// Progress is how far Run has come.
type Progress struct {
	Lines int64
	// Bytes have been read of Total, which is 0 if nobody knows.
	Bytes, Total int64
	Took         time.Duration
}

// Run replays logs. A line that cannot be read is counted and passed over.
//
// If ctx ends or a log cannot be read further, Run returns its error together
// with a Report of what was replayed until then. If nothing could be begun the
// Report is nil.
func Run(ctx context.Context, o Options) (*Report, error) {
	r, err := newReplayer(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.store.Close()
	err = r.input.each(ctx, r)
	report := r.finish()
	report.Partial = err != nil
	return report, err
}

// replayer is one Run.
type replayer struct {
	ctx      context.Context
	input    *input
	log      string // that is being read
	format   Format // of all logs
	detected Format // of this log
	combined combinedParser
	json     *jsonParser

	now   algo.Ticks // virtual time
	store *memory.Store
	gate  *gate.Gate

	entry   entry
	ask     gate.Ask
	outcome gate.Outcome

	report   Report
	tallies  map[*rules.Rule]*tally
	rules    []*rules.Rule
	first    algo.Ticks
	share    float64
	progress *reporter
}

func newReplayer(ctx context.Context, o Options) (*replayer, error) {
	r := &replayer{ctx: ctx, format: o.Format, tallies: map[*rules.Rule]*tally{}}
	switch o.Format {
	case "":
		r.format = Auto
	case Auto, Combined, JSON:
	default:
		return nil, fmt.Errorf("replay: format %q is unknown; auto, combined and json are allowed", o.Format)
	}
	if o.Suggest != nil {
		if r.share = *o.Suggest; !(r.share >= 0 && r.share < 1) {
			return nil, fmt.Errorf("replay: suggest: %v is out of bounds; a share of the keys from 0 to less than 1 is allowed", r.share)
		}
	}
	if o.MaxKeys <= 0 {
		o.MaxKeys = 100_000
	}
	if r.entry.ipv6Prefix = o.IPv6Prefix; o.IPv6Prefix <= 0 {
		r.entry.ipv6Prefix = 64
	}
	set, problems := rules.Compile(o.Spec)
	if set == nil {
		return nil, fmt.Errorf("replay: %w", errors.Join(asErrors(problems)...))
	}
	var err error
	if r.json, err = newJSONParser(o.Fields); err != nil {
		return nil, err
	}
	if r.input, err = newInput(o.Logs, o.Stdin); err != nil {
		return nil, err
	}
	r.decideBy(set, &o)
	r.progress = newReporter(o.Progress)
	return r, nil
}

func asErrors(problems []rules.Problem) (errs []error) {
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, p)
		}
	}
	return errs
}

// decideBy makes the gate.
func (r *replayer) decideBy(set *rules.Set, o *Options) {
	r.rules = set.Rules()
	for _, rule := range r.rules {
		r.tallies[rule] = newTally(rule, o)
		// A request in line would wait in real time. The set is this replay's
		// own and nobody has asked it yet, so its lines can be closed.
		rule.MaxQueue = 0
	}
	r.store = memory.New(&memory.Options{Now: func() algo.Ticks { return r.now }})
	r.gate = gate.New(limit.New(r.store, nil), &gate.Snapshot{Rules: set}, &gate.Options{
		Clock: func() time.Time { return instant(r.now) },
	})
	r.ask = gate.Ask{Requests: []rules.Request{&r.entry}}
}

func instant(t algo.Ticks) time.Time { return time.UnixMicro(int64(t)).UTC() }

// begin starts another log, whose format may be another one.
func (r *replayer) begin(log string) { r.log, r.detected = log, r.format }

// checkEvery is after how many lines to look at the world outside.
const checkEvery = 256

func (r *replayer) line(n int64, line []byte, long bool) error {
	if r.report.Lines++; r.report.Lines%checkEvery == 0 {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		r.progress.tell(r.report.Lines, r.input)
	}
	err := error(errLong)
	if !long {
		err = r.parse(string(line))
	}
	if err != nil {
		r.malformed(n, err)
		return nil
	}
	return r.decide()
}

// parse reads a line into r.entry. The first line of a log that can be read
// settles its format; one that was cut off does not.
func (r *replayer) parse(line string) (err error) {
	r.entry.reset()
	format := r.detected
	if format == Auto {
		format = guess(line)
	}
	if format == JSON {
		err = r.json.parse(line, &r.entry)
	} else {
		err = r.combined.parse(line, &r.entry)
	}
	if err == nil {
		r.detected = format
	}
	return err
}

func guess(line string) Format {
	if strings.HasPrefix(strings.TrimLeft(line, " \t"), "{") {
		return JSON
	}
	return Combined
}

// mostExamples is how many malformed lines are told apart.
const mostExamples = 5

func (r *replayer) malformed(n int64, why error) {
	if r.report.Malformed++; len(r.report.Examples) < mostExamples {
		r.report.Examples = append(r.report.Examples, fmt.Sprintf("%s:%d: %v", r.log, n, why))
	}
}

// decide has the gate decide the request in r.entry and counts what it says.
func (r *replayer) decide() error {
	if r.report.Requests++; r.report.Requests == 1 {
		r.first = r.entry.at
	}
	if r.entry.at < r.now {
		r.report.OutOfOrder++
	}
	r.first = min(r.first, r.entry.at)
	r.now = max(r.now, r.entry.at)
	r.gate.Decide(r.ctx, r.ask, &r.outcome)
	if err := r.outcome.Err; err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if !r.outcome.Allowed {
		r.report.Denied++
	}
	for ds := r.outcome.Decisions; len(ds) > 0; {
		n := 1
		for n < len(ds) && ds[n].Rule == ds[0].Rule {
			n++
		}
		r.tallies[ds[0].Rule].count(r.now, ds[:n])
		ds = ds[n:]
	}
	return nil
}

func (r *replayer) finish() *Report {
	report := &r.report
	report.Rules = []RuleReport{}
	report.Took = r.progress.took()
	if report.Requests > 0 {
		report.First, report.Last = instant(r.first), instant(r.now)
	}
	report.Forgotten = int64(r.store.Stats().Forgotten)
	for _, rule := range r.rules {
		report.Rules = append(report.Rules, r.tallies[rule].report(r.share))
	}
	return report
}
