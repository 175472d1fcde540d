package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/store/sqlite"
	"github.com/stint-dev/stint/transport/slotrest"
)

// stint serves the API over a ledger in a file.
func stint(t *testing.T) http.Handler {
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "slots.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := slots.New(store.Ledger(), nil)
	t.Cleanup(func() { s.Close() })
	return slotrest.New(s, store.Ledger(), nil)
}

// load runs the program against a server and returns what it prints.
func load(t *testing.T, api http.Handler, args ...string) (string, error) {
	t.Helper()
	server := httptest.NewServer(api)
	defer server.Close()
	o, err := parse(append([]string{"-url", server.URL, "-at", "2030-06-01T09:00:00Z", "-payments", "250"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = run(t.Context(), o, &out, io.Discard)
	return out.String(), err
}

func TestRunAndAgain(t *testing.T) {
	api := stint(t)
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"-batch 60", []string{"250 payments for 2030-06-01T09:00:00Z, in batches of 60, by 4 callers", "booked    250\n", "repeated  0,",
			"times     from 09:00:00 to 09:00:", "windows   2 full, 1 with room left", "worst     100 in any 4s; the bank takes 100"}},
		{"-single", []string{"one by one, by 64 callers", "booked    0\n", "repeated  250,", "worst     100 in any 4s"}},
		{"-at 2030-06-01T09:00:02Z -batch 250", []string{"booked    250", "windows   3 full, 0 with room left"}},
	} {
		out, err := load(t, api, strings.Fields(tt.args)...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: lacks %q:\n%s", tt.args, want, out)
			}
		}
	}
}

// TestLostAnswers: every third answer of those that book is lost, or a fault of the
// store. What is booked is booked once.
func TestLostAnswers(t *testing.T) {
	for _, mode := range []string{"-single", "-batch=10"} {
		api := stint(t)
		var n atomic.Int64
		flaky := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/") {
				switch n.Add(1) % 6 {
				case 0:
					api.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler)
				case 3:
					w.WriteHeader(http.StatusServiceUnavailable)
					fmt.Fprint(w, `{"reason": "STORE_UNAVAILABLE", "detail": "for a test"}`)
					return
				}
			}
			api.ServeHTTP(w, r)
		})
		out, err := load(t, flaky, mode)
		if err != nil || !strings.Contains(out, "windows   2 full, 1 with room left") || strings.Contains(out, "repeated  0,") {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}

func TestRefusals(t *testing.T) {
	api := stint(t)
	setting := `{"configName": "payments", "maxPerWindow": 100, "windowSize": "PT4S", "maxDelay": "PT4S"}`
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/admin/rate-limit/config", strings.NewReader(setting))
	r.Header.Set("Content-Type", "application/json")
	if api.ServeHTTP(w, r); w.Code != http.StatusCreated {
		t.Fatal(w.Body)
	}
	for _, mode := range []string{"-single", "-batch=100"} {
		out, err := load(t, api, mode)
		if err != nil || !strings.Contains(out, ": CAPACITY_EXHAUSTED") || !strings.Contains(out, "windows   1 full, ") {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}

// TestBrokenPromise: a server that gives everybody the same time is found out.
func TestBrokenPromise(t *testing.T) {
	bad := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = limitRequest{"payments", 100, "PT4S"}
		switch {
		case strings.HasSuffix(r.URL.Path, "/slots"):
			answer = map[string]any{"scheduledTime": "2030-06-01T09:00:00Z"}
		case strings.HasSuffix(r.URL.Path, "/timeline"):
			answer = map[string]any{"steps": []step{{Used: 250, Capacity: 100}}}
		}
		json.NewEncoder(w).Encode(answer)
	})
	if out, err := load(t, bad, "-single"); err == nil || !strings.Contains(err.Error(), "250 payments in 4s, and 100 are allowed") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWorstSpan(t *testing.T) {
	var times []time.Time
	for _, second := range []int64{0, 1, 3, 4, 4, 5, 9} {
		times = append(times, time.Unix(second, 0))
	}
	if got := worstSpan(times, 4*time.Second); got != 4 {
		t.Errorf("%d in any 4 s, want 4", got) // 1, 3, 4 and 4, or 3 to 5
	}
}

func TestParse(t *testing.T) {
	for args, want := range map[string]string{
		"-at noon":       `-at: "noon" is not a time such as`,
		"-payments 0":    "-payments: 0 is not allowed; 1 to 10000000 is",
		"-callers 1001":  "-callers: 1001 is not allowed; 1 to 1000 is",
		"-batch 10001":   "-batch: 10001 is not allowed; 1 to 10000 is",
		"more":           `"more" is no flag`,
		"-payments many": "invalid value",
	} {
		var errs strings.Builder
		if _, err := parse(strings.Fields(args), &errs); err == nil || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %v, %q; want %q", args, err, errs.String(), want)
		}
	}
	if got, want := payday(time.Date(2030, 12, 24, 18, 0, 0, 0, time.UTC)), time.Date(2031, 1, 1, 9, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("payday is %v, want %v", got, want)
	}
}
