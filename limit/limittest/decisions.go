package limittest

import "testing"

// decisions plays every script to a store of its own: by the store's clock
// where the harness can set it, otherwise by the script's instants, so that at
// least what the store keeps is put to the test.
func decisions(t *testing.T, h Harness) {
	for _, script := range Scripts() {
		t.Run(script.Name, func(t *testing.T) {
			advance := h.Advance
			if script.GoesBack() {
				advance = nil
			}
			script.Run(t, OverStore(t, h.open(t), advance))
		})
	}
}
