package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// summary is the report: a year of invented orders in a few numbers.
type summary struct {
	Orders       int            `json:"orders"`
	RevenueCents int64          `json:"revenue_cents"`
	MedianCents  int64          `json:"median_cents"`
	P99Cents     int64          `json:"p99_cents"`
	ByRegion     map[string]int `json:"orders_by_region"`
	TookMS       int64          `json:"took_ms"`
}

// orders is how many there are in the report: on a processor of 2024 they take
// about 200ms.
const orders = 1_200_000

var regions = []string{"east", "north", "south", "west"}

func report(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	s, err := summarize(r.Context(), orders)
	if err != nil {
		return // the caller is gone
	}
	s.TookMS = time.Since(began).Milliseconds()
	answer(w, http.StatusOK, s)
}

// summarize makes up n orders, always the same, and reports on them. The work
// is real: it keeps one processor busy until it is done or ctx ends.
func summarize(ctx context.Context, n int) (summary, error) {
	random := rand.New(rand.NewPCG(2024, 1))
	prices := make([]int64, 0, n)
	s := summary{Orders: n, ByRegion: make(map[string]int)}
	for i := range n {
		if i%10_000 == 0 && ctx.Err() != nil {
			return summary{}, ctx.Err()
		}
		cents := int64(500 + random.ExpFloat64()*4000)
		prices = append(prices, cents)
		s.RevenueCents += cents
		s.ByRegion[regions[random.IntN(len(regions))]]++
	}
	slices.Sort(prices)
	s.MedianCents, s.P99Cents = prices[n/2], prices[n*99/100]
	return s, nil
}
