package strategies

import (
	"context"
	"time"

	"github.com/stint-dev/stint/limit"
)

// stint is Stint's exact mode over its PostgreSQL store.
func stint(open func(ctx context.Context, url string) (limit.Store, error)) strategy {
	return strategy{name: "stint", open: func(ctx context.Context, url string, period time.Duration) (taker, error) {
		store, err := open(ctx, url)
		if err != nil {
			return nil, err
		}
		return &limiter{store, limit.New(store, nil), &limit.Policy{Name: "bench", Quota: 1, Window: period}}, nil
	}}
}

// limiter is a taker over Stint.
type limiter struct {
	store  limit.Store
	by     *limit.Limiter
	policy *limit.Policy
}

func (l *limiter) take(ctx context.Context, key string) (bool, error) {
	d, err := l.by.Take(ctx, l.policy, key, 1)
	return d.Allowed, err
}

func (l *limiter) close() {
	l.by.Close()
	l.store.Close()
}
