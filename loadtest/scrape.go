package loadtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// counts are counters of Stint's metrics, summed up over instances.
type counts struct {
	granted, denied, updates float64
}

func (c counts) minus(o counts) counts {
	return counts{c.granted - o.granted, c.denied - o.denied, c.updates - o.updates}
}

// scrape sums up the counters of all instances.
func scrape(ctx context.Context, instances []*instance) (sum counts, err error) {
	for _, i := range instances {
		if i.metrics == "" {
			continue
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, i.metrics, nil)
		if err != nil {
			return sum, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return sum, fmt.Errorf("instance %d: metrics: %w", i.number, plain(err))
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return sum, fmt.Errorf("instance %d: %s answers %d", i.number, i.metrics, answer.StatusCode)
		}
		if err := sum.add(answer.Body); err != nil {
			return sum, fmt.Errorf("instance %d: metrics: %w", i.number, err)
		}
	}
	return sum, nil
}

// add adds the counters in a text of Prometheus's format.
func (c *counts) add(text io.Reader) error {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		var to *float64
		switch {
		case series == `stint_requests_total{outcome="allowed"}`:
			to = &c.granted
		case series == `stint_requests_total{outcome="denied"}`:
			to = &c.denied
		case strings.HasPrefix(series, "stint_store_updates_total{"):
			to = &c.updates
		default:
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", series, err)
		}
		*to += n
	}
	return lines.Err()
}
