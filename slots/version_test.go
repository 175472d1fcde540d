package slots_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

var ticks = rapid.Map(rapid.Int64(), func(n int64) plan.Ticks { return plan.Ticks(n) })

func drawCalendar(t *rapid.T) *plan.Calendar {
	c := &plan.Calendar{Zone: rapid.String().Draw(t, "zone")}
	for range rapid.IntRange(0, 3).Draw(t, "hours") {
		c.Hours = append(c.Hours, plan.Opening{
			Day:  time.Weekday(rapid.IntRange(0, 6).Draw(t, "day")),
			From: ticks.Draw(t, "from"),
			To:   ticks.Draw(t, "to"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "holidays") {
		c.Holidays = append(c.Holidays, plan.Date(rapid.Int64().Draw(t, "holiday")))
	}
	for range rapid.IntRange(0, 3).Draw(t, "blackouts") {
		c.Blackouts = append(c.Blackouts, plan.Blackout{From: ticks.Draw(t, "from"), To: ticks.Draw(t, "to")})
	}
	return c
}

// A ledger gets back the very version that it kept: another seed, or another
// calendar, and all slots would lie elsewhere.
func TestVersionComesBackFromJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := slots.Version{
			Version: plan.Version{
				From: ticks.Draw(t, "from"), Max: rapid.Int().Draw(t, "max"), Window: ticks.Draw(t, "window"),
				Mode: rapid.SampledFrom([]plan.Mode{"", plan.Jitter, plan.Spread}).Draw(t, "mode"),
				Seed: rapid.Uint64().Draw(t, "seed"),
			},
			Made: ticks.Draw(t, "made"), MaxDelay: ticks.Draw(t, "max delay"), Horizon: ticks.Draw(t, "horizon"),
			DeliverTo: rapid.String().Draw(t, "deliver to"),
		}
		if rapid.Bool().Draw(t, "calendar") {
			v.Calendar = drawCalendar(t)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back slots.Version
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, back, cmpopts.EquateEmpty()); diff != "" || !v.Equal(back) {
			t.Errorf("by %s it comes back as (-was +is):\n%s", text, diff)
		}
	})
}

// What is in the databases of others can't be changed: this text must be read for
// ever.
func TestVersionIsReadAsItWasWritten(t *testing.T) {
	const text = `{"made":1,"from":2,"max":3,"window":4000000,"mode":"spread","seed":18446744073709551615,"max_delay":5,"horizon":6,` +
		`"calendar":{"zone":"Europe/Berlin","hours":[{"day":1,"from":32400000000,"to":61200000000}],"holidays":[20447],"blackouts":[{"from":7,"to":8}]}}`
	want := slots.Version{
		Made: 1, MaxDelay: 5, Horizon: 6,
		Version: plan.Version{From: 2, Max: 3, Window: 4 * plan.Second, Mode: plan.Spread, Seed: math.MaxUint64, Calendar: &plan.Calendar{
			Zone:      "Europe/Berlin",
			Hours:     plan.Hours{{Day: time.Monday, From: 9 * plan.Hour, To: 17 * plan.Hour}},
			Holidays:  []plan.Date{20447}, // 2025-12-25
			Blackouts: []plan.Blackout{{From: 7, To: 8}},
		}},
	}
	var got slots.Version
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if again, err := json.Marshal(got); err != nil || string(again) != text {
		t.Errorf("it is written as\n%s, %v; want\n%s", again, err, text)
	}
}

func TestVersionOfANewerStintIsRefused(t *testing.T) {
	var v slots.Version
	err := json.Unmarshal([]byte(`{"made":1,"from":2,"max":3,"window":4000000,"phase_of_the_moon":1}`), &v)
	if err == nil || !strings.Contains(err.Error(), "phase_of_the_moon") {
		t.Errorf("got %v; want an error that names the field", err)
	}
}

func TestVersionEqual(t *testing.T) {
	v := func(change func(*slots.Version)) slots.Version {
		v := slots.Version{Made: 1, Version: plan.Version{Max: 2, Window: plan.Second, Calendar: &plan.Calendar{Zone: "UTC", Holidays: []plan.Date{1}}}}
		change(&v)
		return v
	}
	same := func(*slots.Version) {}
	if !v(same).Equal(v(same)) {
		t.Error("a version is not equal to another one that says the same")
	}
	for name, change := range map[string]func(*slots.Version){
		"made":     func(v *slots.Version) { v.Made++ },
		"max":      func(v *slots.Version) { v.Max++ },
		"horizon":  func(v *slots.Version) { v.Horizon++ },
		"calendar": func(v *slots.Version) { v.Calendar = nil },
		"holidays": func(v *slots.Version) { v.Calendar.Holidays = nil },
	} {
		if v(same).Equal(v(change)) {
			t.Errorf("a version is equal to one with another %s", name)
		}
	}
}
