//go:build !race

package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The race detector makes a sync.Pool forget at random, so this runs without it.
func TestAllocations(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/items/alex", nil)
	h := limited(t)
	alone := testing.AllocsPerRun(1000, func() { serve(small, r) })
	with := testing.AllocsPerRun(1000, func() { serve(h, r) })
	if with-alone > 3 {
		t.Errorf("the middleware makes %v allocations; want 3 at most", with-alone)
	}
}
