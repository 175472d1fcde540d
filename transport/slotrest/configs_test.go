package slotrest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/slots/plan"
)

// A config that says everything comes back as it was sent.
func TestConfigComesBack(t *testing.T) {
	a := newTestAPI(t)
	const body = `{"configName":"payouts","maxPerWindow":20,"windowSize":"PT1.5S","mode":"spread","seed":9007199254740991,"maxDelay":"PT8H","horizon":"P30D",` +
		`"effectiveFrom":"2025-06-02T00:00:00+02:00","calendar":{"zone":"Europe/Berlin","hours":"Mon-Fri 09:00-12:00 13:00-17:00, Sat 10:00-14:00",` +
		`"holidays":["2025-12-25","2025-12-26"],"blackouts":[{"from":"2025-12-31T12:00:00+01:00","to":"2026-01-01T00:00:00Z"}]}}`
	want := Config{
		ConfigID: 1, ConfigName: "payouts", MaxPerWindow: 20, WindowSize: "PT1.5S", EffectiveFrom: "2025-06-01T22:00:00Z", CreatedAt: "2025-06-01T12:00:00Z",
		Mode: plan.Spread, Seed: 9007199254740991, MaxDelay: "PT8H", Horizon: "P30D",
		Calendar: &Calendar{
			Zone: "Europe/Berlin", Hours: "Mon-Fri 09:00-12:00 13:00-17:00, Sat 10:00-14:00",
			Holidays: []string{"2025-12-25", "2025-12-26"}, Blackouts: []Blackout{{"2025-12-31T11:00:00Z", "2026-01-01T00:00:00Z"}},
		},
	}
	if diff := cmp.Diff(want, answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", body)); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, answered[Config](t, a, 200, "GET", "/admin/rate-limit/config?name=payouts", "")); diff != "" {
		t.Errorf("looked at (-want +got):\n%s", diff)
	}
	a.now.Store(int64(at(t, "2025-06-01T22:00:00Z")))
	want.IsActive = true
	if diff := cmp.Diff(want, answered[Config](t, a, 200, "GET", "/admin/rate-limit/config?name=payouts", "")); diff != "" {
		t.Errorf("in force (-want +got):\n%s", diff)
	}
	b := answered[Booking](t, a, 200, "POST", "/api/v1/slots", `{"eventId":"a","configName":"payouts","requestedTime":"2025-06-07T14:00:00+02:00","maxDelay":"P2D"}`)
	if b.ScheduledTime != "2025-06-09T07:00:00Z" {
		t.Errorf("a Saturday at closing time is booked for %s", b.ScheduledTime)
	}
}

// Programs rely on these names and types.
func TestConfigFields(t *testing.T) {
	a := newTestAPI(t)
	w := a.do(t, "POST", "/admin/rate-limit/config", `{"configName":"default","maxPerWindow":100,"windowSize":"PT4S"}`)
	const want = `{"configId":1,"configName":"default","maxPerWindow":100,"windowSize":"PT4S","effectiveFrom":"2025-06-01T12:00:00Z","isActive":true,"createdAt":"2025-06-01T12:00:00Z","mode":"jitter","seed":0}`
	if got := strings.TrimSpace(w.Body.String()); w.Code != 201 || got != want {
		t.Errorf("answer is %d %s; want %s", w.Code, got, want)
	}
	if got := strings.TrimSpace(a.do(t, "GET", "/admin/rate-limit/config", "").Body.String()); got != want {
		t.Errorf("looked at it is %s; want %s", got, want)
	}
}

// A version is all that its request says, and one that is yet to come changes nothing.
func TestHistory(t *testing.T) {
	a := newTestAPI(t)
	answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", `{"maxPerWindow":1,"windowSize":"PT1S","mode":"spread","maxDelay":"PT1M"}`)
	a.now.Add(int64(plan.Second))
	answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", `{"maxPerWindow":2,"windowSize":"PT1S","effectiveFrom":"1969-07-20T20:17:40Z"}`)
	later := answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", `{"maxPerWindow":3,"windowSize":"PT1S","effectiveFrom":"2025-06-02T00:00:00Z"}`)
	if later.IsActive || later.ConfigID != 3 {
		t.Errorf("a version that is yet to come is %+v", later)
	}
	got := answered[History](t, a, 200, "GET", "/admin/rate-limit/config/history?name=default", "")
	want := History{"default", []Config{
		{ConfigID: 1, ConfigName: "default", MaxPerWindow: 1, WindowSize: "PT1S", EffectiveFrom: "2025-06-01T12:00:00Z", CreatedAt: "2025-06-01T12:00:00Z", Mode: plan.Spread, MaxDelay: "PT1M"},
		{ConfigID: 2, ConfigName: "default", MaxPerWindow: 2, WindowSize: "PT1S", EffectiveFrom: "2025-06-01T12:00:01Z", CreatedAt: "2025-06-01T12:00:01Z", Mode: plan.Jitter, IsActive: true},
		{ConfigID: 3, ConfigName: "default", MaxPerWindow: 3, WindowSize: "PT1S", EffectiveFrom: "2025-06-02T00:00:00Z", CreatedAt: "2025-06-01T12:00:01Z", Mode: plan.Jitter},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c := answered[Config](t, a, 200, "GET", "/admin/rate-limit/config", ""); c.ConfigID != 2 {
		t.Errorf("in force is %+v", c)
	}
	a.now.Store(int64(at(t, "2025-06-02T00:00:00Z")))
	if c := answered[Config](t, a, 200, "GET", "/admin/rate-limit/config", ""); c.ConfigID != 3 || !c.IsActive {
		t.Errorf("a day later in force is %+v", c)
	}
}

func TestConfigs(t *testing.T) {
	a := newTestAPI(t)
	if w := a.do(t, "GET", "/admin/rate-limit/configs", ""); strings.TrimSpace(w.Body.String()) != `{"configs":[]}` {
		t.Errorf("without any config: %s", w.Body)
	}
	names := []string{"a", "a/b", "b", "\u00e9"}
	for _, name := range names {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", `{"configName":`+string(quoted)+`,"maxPerWindow":1,"windowSize":"PT1S"}`)
		}
	}
	for _, limit := range []string{"", "limit=1", "limit=3", "limit=4"} {
		var got []string
		for path := "/admin/rate-limit/configs?" + limit; path != ""; {
			page := answered[Configs](t, a, 200, "GET", path, "")
			for _, c := range page.Configs {
				got = append(got, c.ConfigName)
				if c.ConfigID != 2 || !c.IsActive {
					t.Errorf("%+v is not the version in force", c)
				}
			}
			path = ""
			if page.NextCursor != "" {
				path = "/admin/rate-limit/configs?" + limit + "&cursor=" + page.NextCursor
			}
		}
		if diff := cmp.Diff(names, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", limit, diff)
		}
	}
}

// A config that is refused is not there afterwards.
func TestRefusedConfigIsNotThere(t *testing.T) {
	a := newTestAPI(t)
	if w := a.do(t, "POST", "/admin/rate-limit/config", `{"configName":"x","maxPerWindow":334,"windowSize":"PT0.001S"}`); w.Code != 400 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := a.do(t, "GET", "/admin/rate-limit/config?name=x", ""); w.Code != 404 {
		t.Errorf("it is there: %d %s", w.Code, w.Body)
	}
	if c := answered[Configs](t, a, 200, "GET", "/admin/rate-limit/configs", ""); len(c.Configs) != 0 {
		t.Errorf("it is listed: %+v", c)
	}
}
