package rules_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/rules"
)

func TestClosest(t *testing.T) {
	words := []string{"quota", "window", "burst", "name", "on_store_error", "ip"}
	for word, want := range map[string]string{
		"quoat":                   "quota",
		"Window":                  "window",
		"on-store-error":          "on_store_error",
		"onstoreerror":            "on_store_error",
		"brust":                   "burst",
		"nme":                     "name",
		"id":                      "",
		"period":                  "",
		"":                        "",
		strings.Repeat("x", 1000): "",
	} {
		if got := rules.Closest(word, words); got != want {
			t.Errorf("closest to %.20q is %q, want %q", word, got, want)
		}
	}
}
