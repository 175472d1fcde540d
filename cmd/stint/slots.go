package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

type slotsCommand struct {
	Config   slotsConfigCommand   `cmd:"" help:"Show a config and its history, or set what holds from now on."`
	Book     slotsBookCommand     `cmd:"" help:"Book a slot for an event, or for each line of standard input."`
	Quote    slotsQuoteCommand    `cmd:"" help:"Say what a number of events would get, and book nothing."`
	Get      slotsGetCommand      `cmd:"" help:"Show an event's slot."`
	Cancel   slotsCancelCommand   `cmd:"" help:"Give the slot of an event back."`
	Move     slotsMoveCommand     `cmd:"" help:"Book another slot for an event and give its old one back."`
	List     slotsListCommand     `cmd:"" help:"List events in the order of their slots."`
	Timeline slotsTimelineCommand `cmd:"" help:"Draw how full the time ahead is."`
	Pause    slotsPauseCommand    `cmd:"" help:"Keep a config from booking, and delivering, anything before a time."`
	Dead     slotsDeadCommand     `cmd:"" help:"List the events that could not be delivered."`
	Redrive  slotsRedriveCommand  `cmd:"" help:"Have events delivered that could not be."`
}

func (slotsCommand) Help() string {
	return `Works on the store itself, with or without a process that serves it.

    stint slots config --store sqlite:slots.db --max 100 --window PT4S
    stint slots book   --store sqlite:slots.db --at 2026-12-01T12:00:00Z payment-1
    stint slots timeline --store sqlite:slots.db

Times are as in RFC 3339, or now, or now+30m. STINT_SLOTS_STORE stands in for --store.`
}

// ledgerFlags are what every command on slots has.
type ledgerFlags struct {
	Store string `required:"" env:"STINT_SLOTS_STORE" placeholder:"URL" help:"Where slots are kept: sqlite:FILE, a URL of PostgreSQL, MySQL or MariaDB, or env:NAME."`
	Name  string `name:"name" default:"default" placeholder:"NAME" help:"The config (default: ${default})."`
}

// with calls f with what the flags name.
func (f ledgerFlags) with(ctx context.Context, do func(s *slots.Scheduler, l slots.Ledger) error) error {
	url, err := config.Store(f.Store, "")
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	store, err := openStore(ctx, url)
	if err != nil {
		return err
	}
	defer store.Close()
	keeper, ok := store.(interface{ Ledger() slots.Ledger })
	if !ok {
		return errors.New("--store: this store cannot keep slots; name sqlite:FILE or a URL of PostgreSQL, MySQL or MariaDB")
	}
	ledger := keeper.Ledger()
	s := slots.New(ledger, &slots.Options{Timeout: time.Minute})
	defer s.Close()
	err = do(s, ledger)
	if errors.Is(err, slots.ErrNoConfig) {
		return fmt.Errorf("there is no config %q; make it: stint slots config --name %s --max 100 --window PT4S", f.Name, f.Name)
	}
	return err
}

// instant is a time on the command line.
type instant plan.Ticks

func (i *instant) UnmarshalText(text []byte) error {
	s := string(text)
	if offset, ok := strings.CutPrefix(s, "now"); ok {
		d, err := time.ParseDuration("0" + strings.TrimPrefix(offset, "+"))
		if offset == "" {
			d, err = 0, nil
		}
		if strings.HasPrefix(offset, "-") {
			d, err = time.ParseDuration(offset)
		}
		if err != nil {
			return fmt.Errorf("%q is not a time; such as now+30m is", s)
		}
		*i = instant(plan.At(time.Now().Add(d)))
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("%q is not a time; such as 2026-12-01T12:00:00Z, now and now+30m are", s)
	}
	*i = instant(plan.At(t))
	return nil
}

// span is a duration on the command line, as in ISO 8601.
type span plan.Ticks

func (d *span) UnmarshalText(text []byte) error {
	t, err := plan.ParseDuration(string(text))
	*d = span(t)
	return err
}

func show(t plan.Ticks) string { return t.Time().Format("2006-01-02T15:04:05.000000Z") }

type slotsConfigCommand struct {
	ledgerFlags
	Max      int     `placeholder:"N" help:"How many slots every window holds at most, wherever it begins."`
	Window   span    `placeholder:"DURATION" help:"How long a window is, as in ISO 8601: PT4S, PT0.5S, P1D."`
	Mode     string  `enum:"jitter,spread" default:"jitter" help:"Where slots lie in a window: jitter (the default) or spread, evenly."`
	From     instant `placeholder:"TIME" help:"When it begins to hold (default: at once)."`
	MaxDelay span    `placeholder:"DURATION" help:"How long after the time asked for a slot may lie (default: any time)."`
	Horizon  span    `placeholder:"DURATION" help:"How far ahead a slot may lie (default: any time)."`
	Deliver  string  `name:"deliver-url" placeholder:"URL" help:"Where a running stint with slots.delivery delivers the events that are booked from then on (default: nowhere)."`
}

func (c slotsConfigCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(s *slots.Scheduler, l slots.Ledger) error {
		if c.Max != 0 || c.Window != 0 {
			v := slots.Version{
				Version:  plan.Version{From: plan.Ticks(c.From), Max: c.Max, Window: plan.Ticks(c.Window), Mode: plan.Mode(c.Mode)},
				MaxDelay: plan.Ticks(c.MaxDelay), Horizon: plan.Ticks(c.Horizon), DeliverTo: c.Deliver,
			}
			if _, err := s.Configure(ctx, c.Name, v); err != nil {
				return err
			}
		}
		shown, now, err := l.Config(ctx, c.Name)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "FROM\tMAX\tWINDOW\tMODE\tMAX DELAY\tHORIZON\tMADE")
		for _, v := range shown.Versions {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", show(v.From), v.Max, plan.FormatDuration(v.Window), mode(v.Mode), unlessZero(v.MaxDelay), unlessZero(v.Horizon), show(v.Made))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if v, ok := shown.Current(now); ok && v.DeliverTo != "" {
			fmt.Fprintf(std.out, "delivered to %s\n", v.DeliverTo)
		}
		if shown.PausedUntil > now {
			_, err = fmt.Fprintf(std.out, "paused until %s\n", show(shown.PausedUntil))
		}
		return err
	})
}

func mode(m plan.Mode) plan.Mode {
	if m == "" {
		return plan.Jitter
	}
	return m
}

func unlessZero(d plan.Ticks) string {
	if d == 0 {
		return "-"
	}
	return plan.FormatDuration(d)
}

type slotsBookCommand struct {
	ledgerFlags
	At       instant  `default:"now" placeholder:"TIME" help:"The earliest time (default: ${default})."`
	MaxDelay span     `placeholder:"DURATION" help:"How long after that the slot may lie (default: as the config says)."`
	IDs      []string `arg:"" name:"id" help:"Ids of events; - reads them from standard input, one a line."`
}

// bookAtOnce is how many events go in one call.
const bookAtOnce = 5000

func (c slotsBookCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(s *slots.Scheduler, _ slots.Ledger) error {
		var failed int
		book := func(ids []string) error {
			requests := make([]slots.Request, len(ids))
			for i, id := range ids {
				requests[i] = slots.Request{ID: id, At: plan.Ticks(c.At), MaxDelay: plan.Ticks(c.MaxDelay)}
			}
			results, err := s.BookAll(ctx, c.Name, requests)
			if err != nil {
				return err
			}
			for i, r := range results {
				if r.Err != nil {
					failed++
					fmt.Fprintf(std.err, "%s: %v\n", ids[i], r.Err)
					continue
				}
				if err := printEvent(std.out, r.Event); err != nil {
					return err
				}
			}
			return nil
		}
		var err error
		if len(c.IDs) == 1 && c.IDs[0] == "-" {
			err = inLots(std.in, book)
		} else {
			err = book(c.IDs)
		}
		if err == nil && failed > 0 {
			err = fmt.Errorf("%d events have got no slot", failed)
		}
		return err
	})
}

// inLots calls f with the lines of r, many at a time.
func inLots(r io.Reader, f func(lines []string) error) error {
	lines := bufio.NewScanner(r)
	var lot []string
	for lines.Scan() {
		if lot = append(lot, lines.Text()); len(lot) == bookAtOnce {
			if err := f(lot); err != nil {
				return err
			}
			lot = lot[:0]
		}
	}
	if err := lines.Err(); err != nil || len(lot) == 0 {
		return err
	}
	return f(lot)
}

func printEvent(w io.Writer, e slots.Event) error {
	state := ""
	if e.Cancelled != 0 {
		state = "\tcancelled"
	}
	_, err := fmt.Fprintf(w, "%s\t%s\t%s%s\n", show(e.At), time.Duration(e.Delay())*time.Microsecond, e.ID, state)
	return err
}

type slotsQuoteCommand struct {
	ledgerFlags
	At    instant `default:"now" placeholder:"TIME" help:"The earliest time (default: ${default})."`
	Count int     `default:"1" placeholder:"N" help:"How many events, up to 1000000 (default: ${default})."`
}

func (c slotsQuoteCommand) Run(ctx context.Context, std streams) error {
	if c.Count < 1 || c.Count > 1_000_000 {
		return fmt.Errorf("--count is %d; 1 to 1000000 is allowed", c.Count)
	}
	return c.with(ctx, func(s *slots.Scheduler, _ slots.Ledger) error {
		q, err := s.Quote(ctx, c.Name, slots.Request{At: plan.Ticks(c.At)}, c.Count)
		if err != nil {
			return err
		}
		return json.NewEncoder(std.out).Encode(map[string]any{
			"granted": q.Granted, "firstDelayMs": q.First / plan.Millisecond, "medianDelayMs": q.Median / plan.Millisecond,
			"lastDelayMs": q.Last / plan.Millisecond, "refused": q.Refused,
		})
	})
}

// eventFlags name one event.
type eventFlags struct {
	ledgerFlags
	ID string `arg:"" help:"The event's id."`
}

type slotsGetCommand struct{ eventFlags }

func (c slotsGetCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(_ *slots.Scheduler, l slots.Ledger) error {
		e, err := l.Event(ctx, c.Name, c.ID)
		if err != nil {
			return err
		}
		return printEvent(std.out, e)
	})
}

type slotsCancelCommand struct{ eventFlags }

func (c slotsCancelCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(s *slots.Scheduler, _ slots.Ledger) error {
		e, err := s.Cancel(ctx, c.Name, c.ID)
		if err != nil {
			return err
		}
		return printEvent(std.out, e)
	})
}

type slotsMoveCommand struct {
	eventFlags
	At instant `required:"" placeholder:"TIME" help:"The earliest new time."`
}

func (c slotsMoveCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(s *slots.Scheduler, _ slots.Ledger) error {
		e, err := s.Reschedule(ctx, c.Name, slots.Request{ID: c.ID, At: plan.Ticks(c.At)})
		if err != nil {
			return err
		}
		return printEvent(std.out, e)
	})
}

type slotsListCommand struct {
	ledgerFlags
	From  instant `default:"now" placeholder:"TIME" help:"The first time (default: ${default})."`
	Until instant `placeholder:"TIME" help:"The time before which to end (default: none)."`
	Limit int     `default:"100" placeholder:"N" help:"How many events to list at most (default: ${default})."`
}

func (c slotsListCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(_ *slots.Scheduler, l slots.Ledger) error {
		q := slots.Query{From: plan.Ticks(c.From), Until: plan.Ticks(c.Until)}
		if q.Until == 0 {
			q.Until = plan.MaxInstant
		}
		for left := c.Limit; left > 0; {
			q.Limit = min(left, 1000)
			events, err := l.Events(ctx, c.Name, q)
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := printEvent(std.out, e); err != nil {
					return err
				}
			}
			if len(events) < q.Limit {
				return nil
			}
			left -= len(events)
			q.After = &events[len(events)-1]
		}
		return nil
	})
}

type slotsTimelineCommand struct {
	ledgerFlags
	From instant `default:"now" placeholder:"TIME" help:"Where to begin (default: ${default})."`
	Step span    `placeholder:"DURATION" help:"How long a line of the picture is (default: so that what is booked fits)."`
	Rows int     `default:"24" placeholder:"N" help:"How many lines to draw (default: ${default})."`
}

func (c slotsTimelineCommand) Run(ctx context.Context, std streams) error {
	if c.Rows < 1 || c.Rows > 10_000 {
		return fmt.Errorf("--rows is %d; 1 to 10000 is allowed", c.Rows)
	}
	return c.with(ctx, func(_ *slots.Scheduler, l slots.Ledger) error {
		shown, _, err := l.Config(ctx, c.Name)
		if err != nil {
			return err
		}
		from := plan.Ticks(c.From)
		v, ok := shown.Current(from)
		if !ok {
			v = shown.Versions[0]
		}
		step := plan.Ticks(c.Step)
		if step == 0 {
			if step, err = fittingStep(ctx, l, c.Name, from, v.Window, c.Rows); err != nil {
				return err
			}
		}
		counts, err := l.Count(ctx, c.Name, from, step, c.Rows)
		if err != nil {
			return err
		}
		return drawTimeline(std.out, from, step, v.Version, counts)
	})
}

// fittingStep returns the least multiple of a window, doubled again and again, of
// which a number of rows reach beyond all that is booked.
func fittingStep(ctx context.Context, l slots.Ledger, config string, from, window plan.Ticks, rows int) (plan.Ticks, error) {
	for step := window; ; step *= 2 {
		end := from + step*plan.Ticks(rows)
		beyond, err := l.Events(ctx, config, slots.Query{From: end, Until: plan.MaxInstant, Limit: 1})
		if err != nil || len(beyond) == 0 || end > from+1000*366*plan.Day {
			return step, err
		}
	}
}

// drawTimeline draws a bar for each step, as long as it is full under v.
func drawTimeline(w io.Writer, from, step plan.Ticks, v plan.Version, counts []int64) error {
	const width = 50
	capacity := float64(v.Max) * float64(step) / float64(v.Window)
	fmt.Fprintf(w, "each line is %s, a full one holds %.0f\n", plan.FormatDuration(step), capacity)
	for i, n := range counts {
		at := from + plan.Ticks(i)*step
		full := min(width, int(float64(n)/capacity*width+0.5))
		if n > 0 {
			full = max(full, 1)
		}
		bar := strings.Repeat("█", full) + strings.Repeat("·", width-full)
		if _, err := fmt.Fprintf(w, "%s %s %d\n", at.Time().Format("2006-01-02 15:04:05"), bar, n); err != nil {
			return err
		}
	}
	return nil
}

type slotsPauseCommand struct {
	ledgerFlags
	Until instant `arg:"" optional:"" help:"The time before which nothing is booked; none ends a pause."`
}

func (c slotsPauseCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(s *slots.Scheduler, _ slots.Ledger) error {
		shown, err := s.Pause(ctx, c.Name, plan.Ticks(c.Until))
		if err != nil {
			return err
		}
		if shown.PausedUntil == 0 {
			_, err = fmt.Fprintln(std.out, "not paused")
		} else {
			_, err = fmt.Fprintf(std.out, "paused until %s\n", show(shown.PausedUntil))
		}
		return err
	})
}

type slotsDeadCommand struct {
	ledgerFlags
	Limit int `default:"100" placeholder:"N" help:"How many to list at most (default: ${default})."`
}

func (c slotsDeadCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(_ *slots.Scheduler, l slots.Ledger) error {
		_, err := eachDead(ctx, l, c.Name, c.Limit, func(some []slots.Delivery) error {
			for _, d := range some {
				answer := "-"
				if d.Status != 0 {
					answer = strconv.Itoa(d.Status)
				}
				if _, err := fmt.Fprintf(std.out, "%s\t%s\t%d attempts\t%s\t%s\n", d.ID, show(d.Dead), d.Attempts, answer, d.Error); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
}

// eachDead calls f with dead letters of a config, many at a time, up to a limit.
func eachDead(ctx context.Context, l slots.Ledger, config string, limit int, f func(some []slots.Delivery) error) (n int, err error) {
	outbox, can := l.(slots.Outbox)
	if !can {
		return 0, slots.ErrNoOutbox
	}
	var after *slots.Delivery
	for n < limit {
		some, err := outbox.Dead(ctx, config, after, min(1000, limit-n))
		if err != nil || len(some) == 0 {
			return n, err
		}
		after = &some[len(some)-1]
		n += len(some)
		if err := f(some); err != nil {
			return n, err
		}
	}
	return n, nil
}

type slotsRedriveCommand struct {
	ledgerFlags
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of events (default: all that could not be delivered)."`
}

func (c slotsRedriveCommand) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(s *slots.Scheduler, l slots.Ledger) error {
		redriven, failed := 0, 0
		redrive := func(ids []string) error {
			results, err := s.Redrive(ctx, c.Name, ids)
			for i, r := range results {
				if r.Err != nil {
					failed++
					fmt.Fprintf(std.err, "%s: %v\n", ids[i], notDead(r.Err))
				} else {
					redriven++
				}
			}
			return err
		}
		var err error
		if len(c.IDs) > 0 {
			err = redrive(c.IDs)
		} else {
			_, err = eachDead(ctx, l, c.Name, math.MaxInt, func(some []slots.Delivery) error {
				ids := make([]string, len(some))
				for i, d := range some {
					ids[i] = d.ID
				}
				return redrive(ids)
			})
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "%d redriven\n", redriven)
		if failed > 0 {
			return fmt.Errorf("%d events are not redriven", failed)
		}
		return nil
	})
}

// notDead says in other words that an event is no dead letter.
func notDead(err error) error {
	if errors.Is(err, slots.ErrLost) {
		return errors.New("it is no dead letter")
	}
	return err
}
