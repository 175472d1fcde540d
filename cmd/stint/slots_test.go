package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSlotsCommands is a config's life on the command line, on an SQLite file.
func TestSlotsCommands(t *testing.T) {
	t.Setenv("STINT_SLOTS_STORE", "sqlite:"+filepath.Join(t.TempDir(), "slots.db"))
	const at = "2099-06-01T12:00:00Z"
	for _, tt := range []struct {
		args      string
		code      int
		out, errs string // regular expressions
	}{
		{"book --at " + at + " a", exitFailed, `^$`, `there is no config "default"; make it: stint slots config --name default --max 100 --window PT4S`},
		{"config --max 0 --window PT4S", exitFailed, `^$`, `max`},
		{"config --max 2 --window 4s", exitUsage, `^$`, `"4s" is not allowed.*write PT4S`},
		{"config --max 2 --window PT4S --mode spread", exitOK, `FROM +MAX +WINDOW.*\n.* 2 +PT4S +spread`, `^$`},
		{"book --at noon a", exitUsage, `^$`, `"noon" is not a time`},
		{"book --at " + at + " a b c", exitOK, `^2099-06-01T12:00:00.000000Z\t0s\ta\n2099-06-01T12:00:02.000000Z\t2s\tb\n2099-06-01T12:00:04.000000Z\t4s\tc\n$`, `^$`},
		{"book --at " + at + " --max-delay PT4S d", exitFailed, `^$`, `d: the earliest free slot is at 2099-06-01T12:00:06Z, later than .*maximum delay`},
		{"quote --at " + at + " --count 3", exitOK, `"firstDelayMs":6000,"granted":3,"lastDelayMs":10000,"medianDelayMs":8000`, `^$`},
		{"get b", exitOK, `12:00:02.000000Z\t2s\tb\n$`, `^$`},
		{"get nobody", exitFailed, `^$`, `no such event`},
		{"cancel b", exitOK, `\tb\tcancelled\n$`, `^$`},
		{"cancel b", exitOK, `\tb\tcancelled\n$`, `^$`},
		{"book --at " + at + " b", exitFailed, `^$`, `b: the event was cancelled`},
		{"book --at " + at + " d", exitOK, `12:00:02.000000Z\t2s\td\n$`, `^$`},
		{"move c --at 2099-06-02T00:00:00Z", exitOK, `^2099-06-02T00:00:00.000000Z\t0s\tc\n$`, `^$`},
		{"list --limit 2", exitOK, `^.*\ta\n.*\td\n$`, `^$`},
		{"timeline --from " + at + " --step PT4S --rows 2", exitOK, `^each line is PT4S, a full one holds 2\n2099-06-01 12:00:00 █{50} 2\n2099-06-01 12:00:04 ·{50} 0\n$`, `^$`},
		{"pause 2099-07-01T00:00:00Z", exitOK, `^paused until 2099-07-01T00:00:00.000000Z\n$`, `^$`},
		{"book --at " + at + " e", exitOK, `^2099-07-01T00:00:00.000000Z`, `^$`},
		{"pause", exitOK, `^not paused\n$`, `^$`},
		{"config --max 2 --window PT4S --mode spread --deliver-url ftp://example.com", exitFailed, `^$`, `deliver to: this is not the URL of a receiver; an http or https URL is`},
		{"config --max 2 --window PT4S --mode spread --deliver-url https://example.com/hooks", exitOK, `\ndelivered to https://example.com/hooks\n$`, `^$`},
		{"dead", exitOK, `^$`, `^$`},
		{"redrive", exitOK, `^0 redriven\n$`, `^$`},
		{"redrive a nobody", exitFailed, `^0 redriven\n$`, `^a: it is no dead letter\nnobody: no such event\n.*2 events are not redriven`},
		{"get a --store redis://127.0.0.1:1", exitFailed, `^$`, `redis`},
	} {
		code, out, errs := stint(t, append([]string{"slots"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !regexp.MustCompile(tt.out).MatchString(out) || !regexp.MustCompile(tt.errs).MatchString(errs) {
			t.Errorf("slots %s: %d\n%s%s\nwant %d, %s and %s", tt.args, code, out, errs, tt.code, tt.out, tt.errs)
		}
	}
}

// TestSlotsAreServed books over HTTP, and finds it in the metrics.
func TestSlotsAreServed(t *testing.T) {
	p := serve(t, hello, "slots: {store: sqlite:"+filepath.Join(t.TempDir(), "slots.db")+"}\n"+itemsRule)
	post := func(path, body string, want int) string {
		t.Helper()
		resp, err := http.Post(p.api+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Errorf("POST %s: %d %s (%v), want %d", path, resp.StatusCode, answer, err, want)
		}
		return string(answer)
	}
	post("/admin/rate-limit/config", `{"configName": "default", "maxPerWindow": 1, "windowSize": "PT4S"}`, http.StatusCreated)
	for i := range 3 {
		event := fmt.Sprintf(`{"eventId": "pay-%d", "configName": "default", "requestedTime": "2099-06-01T12:00:00Z"}`, i)
		if answer, want := post("/api/v1/slots", event, http.StatusOK), fmt.Sprintf(`"delayMs":%d`, 4000*i); !strings.Contains(answer, want) {
			t.Errorf("%s, want %s", answer, want)
		}
	}
	metrics, err := io.ReadAll(p.get(p.api + "/metrics").Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`stint_slot_events_total\{config="default",outcome="booked"\} 3`, `stint_slot_backlog_seconds\{config="default"\} [1-9]`} {
		if !regexp.MustCompile(want).Match(metrics) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
