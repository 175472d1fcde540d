package slotstest

import (
	"context"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// calls returns every method of l, each called on config.
func calls(l slots.Ledger, config string) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"begin": func(ctx context.Context) error {
			tx, err := l.Begin(ctx, config, []string{"alice"}, nil)
			if err == nil {
				tx.Rollback()
			}
			return err
		},
		"create": func(ctx context.Context) error { return l.Create(ctx, config) },
		"configs": func(ctx context.Context) error {
			_, err := l.Configs(ctx, "", 10)
			return err
		},
		"config": func(ctx context.Context) error {
			_, _, err := l.Config(ctx, config)
			return err
		},
		"event": func(ctx context.Context) error {
			_, err := l.Event(ctx, config, "alice")
			return err
		},
		"events": func(ctx context.Context) error {
			_, err := l.Events(ctx, config, slots.Query{Until: plan.MaxInstant, Limit: 10})
			return err
		},
		"count": func(ctx context.Context) error {
			_, err := l.Count(ctx, config, noon, plan.Second, 3)
			return err
		},
	}
}
