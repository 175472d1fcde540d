package telemetry

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestFrequentKeepsItsBounds holds what a sketch says of any stream against
// exact counts: the bounds that its comment promises, with fading and without.
func TestFrequentKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 20).Draw(t, "room")
		names := rapid.IntRange(1, 60).Draw(t, "names")
		skew := rapid.Float64Range(0, 3).Draw(t, "skew")
		fades := rapid.Bool().Draw(t, "fades")
		f, exact, total := newFrequent(room), map[string]float64{}, 0.0
		for range rapid.IntRange(0, 2000).Draw(t, "length") {
			if u := rapid.Float64Range(0, 1).Draw(t, "u"); fades && u < 0.002 {
				f.fade(0.5)
				total *= 0.5
				for name := range exact {
					exact[name] *= 0.5
				}
			} else {
				name := strconv.Itoa(int(float64(names) * math.Pow(u, 1+skew)))
				f.add(name)
				exact[name]++
				total++
			}
		}
		const rounding = 1e-6
		bound := total/float64(room) + rounding
		followed := map[string]bool{}
		sum := 0.0
		for _, one := range f.top(room) {
			followed[one.name] = true
			sum += one.weight
			came := exact[one.name]
			if one.weight < came-rounding || one.weight-one.err > came+rounding || one.err > bound {
				t.Errorf("%s came %v times: weight %v, error %v; room %d, total %v", one.name, came, one.weight, one.err, room, total)
			}
		}
		if math.Abs(sum-total) > rounding {
			t.Errorf("the weights make %v, want %v", sum, total)
		}
		for name, came := range exact {
			if came > bound && !followed[name] {
				t.Errorf("%s came %v times of %v and is not followed in %d places", name, came, total, room)
			}
		}
		if len(f.byName) != len(f.heap) || len(f.heap) > room {
			t.Errorf("%d names in %d places; there is room for %d", len(f.byName), len(f.heap), room)
		}
	})
}

// TestFrequentFindsTheTop: among 200,000 names that come once, the ten that
// come more often are the ten that are told, in their order.
func TestFrequentFindsTheTop(t *testing.T) {
	f := newFrequent(100)
	for i := range 200_000 {
		f.add("once" + strconv.Itoa(i))
		for heavy := range 10 {
			if i%(heavy+2) == 0 {
				f.add("heavy" + strconv.Itoa(heavy))
			}
		}
	}
	for i, one := range f.top(10) {
		if want := "heavy" + strconv.Itoa(i); one.name != want {
			t.Errorf("place %d is %s, want %s", i+1, one.name, want)
		}
	}
}

func BenchmarkFrequent(b *testing.B) {
	f := newFrequent(200)
	names := make([]string, 1000)
	for i := range names {
		names[i] = "client" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f.add(names[i*7919%len(names)])
	}
}
