package limittest_test

import (
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/store/memory"
)

func TestScripts(t *testing.T) {
	for _, script := range limittest.Scripts() {
		t.Run(script.Name, func(t *testing.T) {
			t.Run("pure", func(t *testing.T) { script.Run(t, limittest.Pure()) })
			t.Run("limiter", func(t *testing.T) {
				var now algo.Ticks
				store := memory.New(&memory.Options{Now: func() algo.Ticks { return now }})
				defer store.Close()
				script.Run(t, limittest.OverLimiter(t.Context(), limit.New(store, nil), func(at algo.Ticks) { now = at }))
			})
		})
	}
}

// The scripts together use every algorithm and every verb.
func TestScriptsCoverEverything(t *testing.T) {
	seen := map[string]bool{}
	for _, script := range limittest.Scripts() {
		for _, step := range script.Steps {
			seen[step.Policy.Algorithm.Name] = true
			seen[string(step.Verb)] = true
		}
	}
	want := []string{"take", "peek", "refund", "reset", "used"}
	for _, a := range algo.All {
		want = append(want, a.Name)
	}
	for _, name := range want {
		if !seen[name] {
			t.Errorf("no script uses %s", name)
		}
	}
}
