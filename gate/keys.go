package gate

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// Match returns the rules that apply to a request, and those among them that others
// stand in place of, by the present Snapshot.
func (g *Gate) Match(r rules.Request) []rules.Match {
	return g.state.Load().Rules.Match(nil, r, g.clock)
}

// State returns what each policy of a match says of its key now, and charges nothing.
func (g *Gate) State(ctx context.Context, m *rules.Match) ([]limit.Decision, error) {
	if len(m.Policies) == 0 {
		return nil, nil
	}
	spends := make([]limit.Spend, len(m.Policies))
	for i, p := range m.Policies {
		spends[i] = limit.Spend{Policy: p, Key: m.Key, Cost: 1}
	}
	return g.limiter.PeekAll(ctx, spends)
}

// Reset makes the key of a match as if it had never been seen under any of its
// policies. Other nodes forget, too, that they have denied it.
func (g *Gate) Reset(ctx context.Context, m *rules.Match) error {
	var errs []error
	for _, p := range m.Policies {
		errs = append(errs, g.limiter.Reset(ctx, p, m.Key))
	}
	return errors.Join(errs...)
}
