package replay

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSketchBounds holds what the paper proves against exact counts: a count
// is at least the true one and above it by at most its excess, and a key with
// more than 1/max of all hits has a counter.
func TestSketchBounds(t *testing.T) {
	const most, hits = 20, 20_000
	random := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(random, 1.2, 1, 5000)
	s, exact := newSketch(most), map[string]int64{}
	for range hits {
		key := fmt.Sprint(zipf.Uint64())
		exact[key]++
		s.hit(key)
	}
	found := map[string]bool{}
	for i, c := range s.top(most) {
		found[c.key] = true
		if n := exact[c.key]; c.hits < n || c.hits-c.excess > n {
			t.Errorf("%s: %d hits with an excess of %d; there were %d", c.key, c.hits, c.excess, n)
		}
		if i > 0 && c.hits > s.top(most)[i-1].hits {
			t.Errorf("not sorted at %d", i)
		}
	}
	for key, n := range exact {
		if n > hits/most && !found[key] {
			t.Errorf("%s with %d hits was not found", key, n)
		}
	}
	if len(s.heap) != most || len(s.at) != most {
		t.Errorf("%d counters, %d places; want %d", len(s.heap), len(s.at), most)
	}
}

func TestSampleEstimates(t *testing.T) {
	for _, keys := range []int{10, 1000, 100_000} {
		s := newSample[struct{}](1000)
		for i := range 2 * keys {
			if key := fmt.Sprint("key", i%keys); s.takes(key) {
				s.put(key, struct{}{})
			}
		}
		n, exact := s.count()
		if exact != (keys <= 1000) || exact && n != int64(keys) || n < int64(keys)*8/10 || n > int64(keys)*12/10 {
			t.Errorf("%d keys: counted %d (exact: %v)", keys, n, exact)
		}
		if len(s.kept) > 1000 {
			t.Errorf("%d keys are kept", len(s.kept))
		}
	}
}
