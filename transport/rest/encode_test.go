package rest

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// TestAppendAnswer writes random outcomes as package json does.
func TestAppendAnswer(t *testing.T) {
	text := rapid.OneOf(rapid.StringMatching(`[a-z0-9_-]{0,8}`), rapid.String(), rapid.Just("\xff<\"\\>&\u2028"))
	span := rapid.Map(rapid.Int64Min(0), func(n int64) time.Duration { return time.Duration(n) })
	decision := rapid.Custom(func(t *rapid.T) gate.Decision {
		return gate.Decision{
			Decision: limit.Decision{
				Policy: text.Draw(t, "policy"), Allowed: rapid.Bool().Draw(t, "allowed"), Degraded: rapid.Bool().Draw(t, "degraded"),
				Limit: rapid.Int64().Draw(t, "limit"), Remaining: rapid.Int64().Draw(t, "remaining"),
				RetryAfter: span.Draw(t, "retry"), ResetAfter: span.Draw(t, "reset"),
			},
			Rule:    &rules.Rule{Name: text.Draw(t, "rule"), Shadow: rapid.Bool().Draw(t, "shadow")},
			Request: rapid.IntRange(0, MaxDescriptors-1).Draw(t, "request"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		out := &gate.Outcome{
			Allowed: rapid.Bool().Draw(t, "allowed"), Status: rapid.SampledFrom([]int{0, 429, 503}).Draw(t, "status"),
			RetryAfter: span.Draw(t, "retry"), Decisions: rapid.SliceOfN(decision, 0, 3).Draw(t, "decisions"),
		}
		want, err := json.Marshal(newAnswer(out))
		if err != nil {
			t.Fatal(err)
		}
		if got := appendAnswer([]byte("before"), out); string(got) != "before"+string(want)+"\n" {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func newAnswer(out *gate.Outcome) Answer {
	a := Answer{
		Allowed:      out.Allowed,
		Status:       out.Status,
		RetryAfterMS: milliseconds(out.RetryAfter),
		Decisions:    make([]Decision, len(out.Decisions)),
	}
	for i, d := range out.Decisions {
		a.Decisions[i] = Decision{
			Descriptor:   d.Request,
			Rule:         d.Rule.Name,
			Policy:       d.Policy,
			Allowed:      d.Allowed,
			Shadow:       d.Rule.Shadow,
			Limit:        d.Limit,
			Remaining:    d.Remaining,
			RetryAfterMS: milliseconds(d.RetryAfter),
			ResetAfterMS: milliseconds(d.ResetAfter),
			Degraded:     d.Degraded,
		}
	}
	return a
}
