package plan_test

import (
	"slices"
	"testing"

	"github.com/stint-dev/stint/slots/plan"
)

func BenchmarkBookAtOneInstant(b *testing.B) {
	line := mustNew(b, 0, payments)
	for name, n := range map[string]int{"100k": 100_000, "500k": 500_000} {
		requests := slices.Repeat([]plan.Request{{At: plan.Hour}}, n)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := line.Book(0, requests, newLedger()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBookAfter5000FullWindows(b *testing.B) {
	line, l := mustNew(b, 0, payments), newLedger()
	mustBook(b, l, line, 0, 500_000, plan.Request{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := line.Book(0, make([]plan.Request, 1), l); err != nil {
			b.Fatal(err)
		}
	}
}

// A window is changed under a million slots that lie a bit above the new rate:
// one booking passes them all, and 100,000 find places between thinner ones.
func BenchmarkBookAfterAChange(b *testing.B) {
	for name, max := range map[string]int{"no room": 100, "half the room": 50} {
		before := payments
		before.Max = max
		l := newLedger()
		mustBook(b, l, mustNew(b, 0, before), 0, 1_000_000, plan.Request{})
		line := mustNew(b, 0, before, plan.Version{Max: 1000, Window: 40 * plan.Second})
		n := map[int]int{100: 1, 50: 100_000}[max]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := line.Book(0, make([]plan.Request, n), l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for name, v := range map[string]plan.Version{
		"payments":        payments,
		"a million a day": {Max: 1_000_000, Window: plan.Day},
		"opening hours":   {Max: 100, Window: 4 * plan.Second, Calendar: office(b)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				mustNew(b, 0, v)
			}
		})
	}
}
