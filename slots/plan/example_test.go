package plan_test

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/slots/plan"
)

// A ledger in memory, of one config that only ever raises its Max. On a
// database, each of these is a table.
type memory struct {
	slots   map[plan.Slot]string
	windows map[int64]plan.Bits
	full    plan.Runs
}

func (m *memory) Load(n plan.Need) (plan.Chunk, error) {
	c := plan.Chunk{To: n.From + int64(n.Windows)}
	for _, run := range m.full.From(n.From) {
		if run.From < c.To {
			c.Full = append(c.Full, run)
		}
	}
	for k := n.From; k < c.To; k++ {
		if taken, ok := m.windows[k]; ok {
			c.Taken = append(c.Taken, plan.Window{Era: n.Era, Index: k, Taken: taken})
		}
	}
	return c, nil
}

func (m *memory) Strays(era, phase int, from, to plan.Ticks) ([]plan.Slot, error) {
	return nil, nil // none, as long as nothing but Max changes, and upwards
}

// Two events in every 4 seconds, and five of them at once.
func Example() {
	noon := plan.Ticks(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	timeline, err := plan.New(noon, plan.Version{From: noon, Max: 2, Window: 4 * plan.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger := &memory{slots: map[plan.Slot]string{}, windows: map[int64]plan.Bits{}}

	// In the transaction that holds the lock of the config:
	events := []string{"a", "b", "c", "d", "e"}
	requests := make([]plan.Request, len(events))
	for i := range requests {
		requests[i] = plan.Request{At: noon, MaxDelay: 7 * plan.Second}
	}
	booking, err := timeline.Book(noon, requests, ledger)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, g := range booking.Grants {
		if g.Refused != "" {
			fmt.Printf("%s: refused (%s), it would have been %s later\n", events[i], g.Refused, plan.FormatDuration(g.Delay))
			continue
		}
		ledger.slots[g.Slot] = events[i]
		fmt.Printf("%s: %s\n", events[i], time.UnixMicro(int64(g.At)).UTC().Format("15:04:05.000000"))
	}
	for _, w := range booking.Windows {
		ledger.windows[w.Index] = w.Taken
	}
	for _, run := range booking.Full {
		ledger.full = ledger.full.Add(run)
	}

	quote, err := timeline.Quote(noon, plan.Request{At: noon}, 100, ledger)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("100 more: the last of them %s later\n", plan.FormatDuration(quote.Last))
	// Output:
	// a: 12:00:00.000000
	// b: 12:00:02.472135
	// c: 12:00:04.000000
	// d: 12:00:06.472135
	// e: refused (max delay), it would have been PT8S later
	// 100 more: the last of them PT3M26.472135S later
}
