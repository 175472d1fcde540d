// Command load books many payments for one instant, as a bank's customer with many
// salaries to pay would, and says when they may be sent. It knows of Stint only what
// is in its HTTP API.
//
// Run it again: every payment has the time that it had.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	url      string
	payments int
	at       time.Time
	single   bool
	callers  int
	batch    int
	config   string
	max      int
	window   string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // the flag package has said why
	}
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func parse(args []string, errs io.Writer) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.url, "url", "http://localhost:8080", "where Stint's API `is`")
	flags.IntVar(&o.payments, "payments", 100_000, "`how many` to book")
	at := flags.String("at", payday(time.Now()).Format(time.RFC3339), "the `time` that all of them are for")
	flags.BoolVar(&o.single, "single", false, "book each by a call of its own, and not in batches")
	flags.IntVar(&o.callers, "callers", 0, "`how many` book at the same time (default 4, or 64 with -single)")
	flags.IntVar(&o.batch, "batch", 1000, "`how many` a batch has")
	flags.StringVar(&o.config, "config", "payments", "the `name` of the limit to book under")
	flags.IntVar(&o.max, "max", 100, "`how many` the bank takes in a window, if that limit is not set yet")
	flags.StringVar(&o.window, "window", "PT4S", "how `long` a window is, if that limit is not set yet")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) (*options, error) {
		err := fmt.Errorf(format, args...)
		fmt.Fprintln(errs, "load:", err)
		return nil, err
	}
	var err error
	if o.at, err = time.Parse(time.RFC3339, *at); err != nil {
		return wrong("-at: %q is not a time such as 2030-06-01T09:00:00Z", *at)
	}
	if flags.NArg() > 0 {
		return wrong("%q is no flag; -help lists them", flags.Arg(0))
	}
	if o.callers == 0 && o.single {
		o.callers = 64
	} else if o.callers == 0 {
		o.callers = 4
	}
	switch {
	case o.payments < 1 || o.payments > 10_000_000:
		return wrong("-payments: %d is not allowed; 1 to 10000000 is", o.payments)
	case o.callers < 1 || o.callers > 1000:
		return wrong("-callers: %d is not allowed; 1 to 1000 is", o.callers)
	case o.batch < 1 || o.batch > 10_000:
		return wrong("-batch: %d is not allowed; 1 to 10000 is", o.batch)
	}
	if o.single {
		o.batch = 1
	}
	return o, nil
}

// payday is the first of the next month, at nine.
func payday(now time.Time) time.Time {
	return time.Date(now.Year(), now.Month()+1, 1, 9, 0, 0, 0, time.UTC)
}

// run books the payments, prints what came of it, and looks whether that is what was
// promised.
func run(ctx context.Context, o *options, out, progress io.Writer) error {
	api := newClient(o.url, o.callers)
	limit, err := api.limit(ctx, o.config)
	if errors.Is(err, errNoLimit) {
		limit, err = api.setLimit(ctx, limitRequest{o.config, o.max, o.window})
	}
	if err != nil {
		return err
	}
	b := &booking{options: o, api: api}
	if err := b.run(ctx, progress); err != nil {
		return err
	}
	return b.report(ctx, out, limit)
}
