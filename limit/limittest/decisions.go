package limittest

import "testing"

// decisions plays every script twice, each time to a store of its own: through
// Update and through a Limiter. The first is done by the store's clock where the
// harness can set it and otherwise by the script's instants, so that at least
// what the store keeps is put to the test.
func decisions(t *testing.T, h Harness) {
	for _, script := range Scripts() {
		t.Run(script.Name, func(t *testing.T) {
			advance := h.Advance
			if script.GoesBack() {
				advance = nil
			}
			t.Run("update", func(t *testing.T) { script.Run(t, OverStore(t, h.open(t), advance)) })
			t.Run("limiter", func(t *testing.T) {
				if advance == nil {
					t.Skip("the store's clock cannot be set to the script's instants")
				}
				script.Run(t, LimiterOver(t, h.open(t), advance))
			})
		})
	}
}
