package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stint-dev/stint/internal/progress"
	"github.com/stint-dev/stint/transport/seatrest"
)

type topCommand struct {
	API      string        `default:"http://127.0.0.1:8080" env:"STINT_API" placeholder:"URL" help:"Where a Stint listens for its API (default: ${default})."`
	TokenEnv string        `default:"STINT_ADMIN_TOKEN" placeholder:"NAME" help:"The environment variable with the token of administrators, if there is one (default: ${default})."`
	Every    time.Duration `default:"2s" help:"How often to look (default: ${default})."`
	Rows     int           `default:"10" placeholder:"N" help:"How many tenants to show, 1 to 100 (default: ${default})."`
	Once     bool          `help:"Look once, and end."`
}

func (topCommand) Help() string {
	return `Shows who holds seats and who waits for them in a running Stint, again and again
until it is interrupted. In a terminal the picture is drawn anew; elsewhere, such as
in a file or behind a pipe, one follows the other.

    stint top
    stint top --api https://stint.internal:8080 --every 5s
    stint top --once | head -3

ISOLATION is how many times as long as its work takes a request of a well-behaved
tenant takes now, at the 99th percentile of a minute. 1.00x is perfect; 2.00x means
that it waits for as long as it then runs.
KEPT are seats that are free though somebody waits: others are likely to need them.
SHARE is how many seats a tenant may hold whatever the others need, DEMAND how many
it lately wanted at once, and HELD how many it held on average since the last look.
Below the tenants stands who waited behind whom: for how long requests of the one
waited in the last minutes while the other held the seats.`
}

func (c topCommand) Run(ctx context.Context, std streams) error {
	switch {
	case c.Every < 100*time.Millisecond || c.Every > time.Hour:
		return fmt.Errorf("--every: %v; 100ms to 1h is allowed", c.Every)
	case c.Rows < 1 || c.Rows > seatrest.MaxTop:
		return fmt.Errorf("--rows: %d; 1 to %d are allowed", c.Rows, seatrest.MaxTop)
	}
	u, err := url.Parse(c.API)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--api: %q is not a URL; such as http://127.0.0.1:8080 is", c.API)
	}
	u = u.JoinPath(seatrest.Path)
	u.RawQuery = fmt.Sprintf("top=%d", c.Rows)
	look := &looker{url: u.String(), token: os.Getenv(c.TokenEnv), client: &http.Client{Timeout: 10 * time.Second}}
	view := view{color: progress.IsTerminal(std.out), from: u.Host}
	for {
		now, err := look.look(ctx)
		if err != nil {
			return err
		}
		if err := view.draw(std.out, now, time.Now()); err != nil {
			return err
		}
		if c.Once {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

// looker asks a running Stint.
type looker struct {
	url, token string
	client     *http.Client
}

// mostSeats is the most bytes of an answer that are read.
const mostSeats = 1 << 20

func (l *looker) look(ctx context.Context) (*seatrest.Seats, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
	if err != nil {
		return nil, err
	}
	if l.token != "" {
		r.Header.Set("Authorization", "Bearer "+l.token)
	}
	answer, err := l.client.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("%s cannot be asked: %w; --api says where Stint listens", l.url, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostSeats))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.url, err)
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: this Stint has a token for its administrators; set STINT_ADMIN_TOKEN to it, or name another variable with --token-env", l.url)
	case http.StatusForbidden:
		return nil, fmt.Errorf("%s: this Stint has no token for its administrators, so it answers callers on its own machine only; give it admin: {token: env:STINT_ADMIN_TOKEN}", l.url)
	default:
		return nil, fmt.Errorf("%s answered %s; --api says where Stint listens", l.url, answer.Status)
	}
	s := &seatrest.Seats{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%s is not answered by a Stint: %w", l.url, err)
	}
	return s, nil
}

// view draws what is seen, and how it has changed since the last time.
type view struct {
	color bool // draw in place of the last picture, with colours
	from  string

	last *seatrest.Seats
	at   time.Time
}

// Sequences for terminals.
const (
	home   = "\x1b[H\x1b[J" // to the upper left, and nothing below
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	reset  = "\x1b[0m"
)

func (v *view) paint(color, text string) string {
	if !v.color {
		return text
	}
	return color + text + reset
}

func (v *view) draw(w io.Writer, s *seatrest.Seats, at time.Time) error {
	var b strings.Builder
	if v.color {
		b.WriteString(home)
	}
	fmt.Fprintf(&b, "%s  %s", at.Format("15:04:05"), v.from)
	if !s.Isolation {
		fmt.Fprintf(&b, "\nno seats: the rules file has no isolation\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "  ISOLATION %s\n", v.ratio(s.Canary))
	fmt.Fprintf(&b, "seats %s %d of %d busy, %d kept, %d requests waiting, %d tenants\n", v.gauge(s), s.Busy, s.Seats, s.Kept, s.Waiting, s.Tenants)
	span := at.Sub(v.at).Seconds()
	known := v.last != nil && span > 0 && s.Started >= v.last.Started
	if known {
		fmt.Fprintf(&b, "requests %.1f/s started, %s/s refused\n", float64(s.Started-v.last.Started)/span, v.alarm(float64(s.Refused-v.last.Refused)/span))
	} else {
		fmt.Fprintf(&b, "requests %d started, %d refused since it runs\n", s.Started, s.Refused)
	}
	b.WriteByte('\n')
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "BUSY\tWAITING\tCAP\tSHARE\tDEMAND\tHELD\tREFUSED\tPLAN\tTENANT\t")
	for _, n := range v.tenants(s) {
		held := "-"
		if was := v.of(n.Tenant); known && was != nil && n.SeatSeconds >= was.SeatSeconds {
			held = fmt.Sprintf("%.1f", (n.SeatSeconds-was.SeatSeconds)/span)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%.2f\t%s\t%d\t%s\t%s\t\n", n.Busy, n.Waiting, n.Cap, n.Share, n.Demand, held, n.Refused, short(n.Plan), short(n.Tenant))
	}
	t.Flush()
	head, rest, _ := strings.Cut(table.String(), "\n")
	b.WriteString(v.paint(bold, head) + "\n" + rest)
	if len(s.Behind) > 0 {
		b.WriteString("\n" + v.paint(bold, "WAITED BEHIND") + "\n")
		for _, p := range s.Behind {
			fmt.Fprintf(&b, "%8.1fs  %s behind %s\n", p.WaitedSeconds, short(p.Waiter), short(p.Holder))
		}
	}
	if !v.color {
		b.WriteByte('\n')
	}
	v.last, v.at = s, at
	_, err := io.WriteString(w, b.String())
	return err
}

// ratio writes what the canary says.
func (v *view) ratio(c *seatrest.Canary) string {
	switch {
	case c == nil:
		return "not measured: the canary is off"
	case c.Ratio == 0:
		return "not known yet"
	}
	color := green
	if c.Ratio > 1.25 {
		color = yellow
	}
	if c.Ratio > 2 {
		color = red
	}
	return v.paint(color, fmt.Sprintf("%.2fx", c.Ratio)) + fmt.Sprintf(" (runs %s, waits %s)", inMilliseconds(c.TypicalSeconds), inMilliseconds(c.WaitSeconds))
}

func (v *view) alarm(rate float64) string {
	if rate == 0 {
		return "0.0"
	}
	return v.paint(red, fmt.Sprintf("%.1f", rate))
}

// gauge draws busy and kept seats: [#####--....].
func (v *view) gauge(s *seatrest.Seats) string {
	const width = 30
	part := func(n int) int { return n * width / max(1, s.Seats) }
	busy := min(width, part(s.Busy))
	kept := min(width-busy, part(s.Kept))
	return "[" + strings.Repeat("#", busy) + strings.Repeat("-", kept) + strings.Repeat(".", width-busy-kept) + "]"
}

// tenants returns those with most seat-time, and after them those with most refusals that
// are not among them.
func (v *view) tenants(s *seatrest.Seats) []seatrest.Tenant {
	all := s.BySeatTime
	shown := make(map[string]bool)
	for _, t := range all {
		shown[t.Tenant] = true
	}
	for _, t := range s.ByRefusals {
		if !shown[t.Tenant] {
			all = append(all, t)
		}
	}
	return all
}

// of returns what a tenant was at the last look; nil if it was not shown.
func (v *view) of(tenant string) *seatrest.Tenant {
	if v.last == nil {
		return nil
	}
	for _, list := range [][]seatrest.Tenant{v.last.BySeatTime, v.last.ByRefusals} {
		for i := range list {
			if list[i].Tenant == tenant {
				return &list[i]
			}
		}
	}
	return nil
}

// short returns no more of a name than a line has room for. DescribeKey has quoted what
// would not be shown as it is.
func short(name string) string {
	const most = 48
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}

func inMilliseconds(seconds float64) string { return fmt.Sprintf("%.0f ms", 1000*seconds) }
