package postgres_test

import (
	"testing"

	"github.com/stint-dev/stint/limit/limittest"
)

func TestStore(t *testing.T) { limittest.Run(t, newHarness(t).harness()) }

func TestStoreOnTheClockOfTheServer(t *testing.T) {
	h := newHarness(t)
	h.own = true
	limittest.Run(t, h.harness())
}

func BenchmarkStore(b *testing.B) { limittest.Bench(b, newHarness(b).harness()) }
