package algo_test

import (
	"testing"

	"github.com/stint-dev/stint/limit/algo"
)

func TestLogKeepsOneEntryForAnInstant(t *testing.T) {
	h := &history{a: algo.Log, l: algo.Limit{Quota: 100, Window: algo.Minute}, now: 1000 * algo.Day}
	h.spend(1)
	size := len(h.s.Entries())
	for range 99 {
		if v := h.spend(1); !v.OK || len(h.s.Entries()) != size {
			t.Fatalf("ok is %t; the log has %d bytes, it had %d", v.OK, len(h.s.Entries()), size)
		}
	}
}

func TestLogForgetsWhatHasLeftTheWindow(t *testing.T) {
	h := &history{a: algo.Log, l: algo.Limit{Quota: algo.MaxLogQuota, Window: algo.Second}, now: 1000 * algo.Day}
	most := 0
	for range 3 * algo.MaxLogQuota {
		h.now += algo.Millisecond
		h.spend(1)
		most = max(most, len(h.s.Entries()))
	}
	if most > 3100 { // 1000 entries of 3 bytes, the first of 9
		t.Errorf("the log of 1000 spends has %d bytes", most)
	}
}
