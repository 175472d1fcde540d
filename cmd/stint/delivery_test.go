package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
)

// arrival is a request that a receiver got.
type arrival struct {
	id       string
	at, slot time.Time
}

// hooks is a receiver that believes what is signed, and remembers it.
type hooks struct {
	*httptest.Server
	t   *testing.T
	key []byte

	mu     sync.Mutex
	all    []arrival
	status int // that it answers
}

func receive(t *testing.T, key []byte) *hooks {
	h := &hooks{t: t, key: key, status: http.StatusNoContent}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, _ := io.ReadAll(r.Body)
	mac := hmac.New(sha256.New, h.key)
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); !slices.Contains(strings.Fields(r.Header.Get("webhook-signature")), want) {
		h.t.Errorf("%s is signed by %q, want %q", body, r.Header.Get("webhook-signature"), want)
	}
	var m struct {
		EventID       string    `json:"eventId"`
		ScheduledTime time.Time `json:"scheduledTime"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		h.t.Errorf("%s: %v", body, err)
	}
	h.mu.Lock()
	h.all = append(h.all, arrival{m.EventID, now, m.ScheduledTime})
	status := h.status
	h.mu.Unlock()
	w.WriteHeader(status)
}

func (h *hooks) answer(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// arrivals returns those whose ids begin with prefix, in the order of time.
func (h *hooks) arrivals(prefix string) (some []arrival) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.all {
		if strings.HasPrefix(a.id, prefix) {
			some = append(some, a)
		}
	}
	slices.SortFunc(some, func(a, b arrival) int { return a.at.Compare(b.at) })
	return some
}

// wait waits until n events whose ids begin with prefix have arrived, and returns
// how often each.
func (h *hooks) wait(prefix string, n int) map[string]int {
	h.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		times := make(map[string]int)
		for _, a := range h.arrivals(prefix) {
			times[a.id]++
		}
		if len(times) == n {
			return times
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%d of %d events %q have arrived", len(times), n, prefix)
		}
	}
}

// keep looks whether a receiver was ever sent more than most in a window. What is
// late by some time, on its way or on this machine, may come together with what
// is not: so the window that is looked at is shorter by that.
func keep(t *testing.T, all []arrival, most int, window time.Duration) {
	t.Helper()
	late := 50 * time.Millisecond
	for _, a := range all {
		if a.at.Before(a.slot) {
			t.Errorf("%s arrived %v before its slot", a.id, a.slot.Sub(a.at))
		}
		late = max(late, a.at.Sub(a.slot))
	}
	if late > time.Second {
		t.Errorf("one arrived %v after its slot", late)
	}
	count := func(window time.Duration) (worst int) {
		first := 0
		for i, a := range all {
			for all[first].at.Add(window).Compare(a.at) <= 0 {
				first++
			}
			worst = max(worst, i-first+1)
		}
		return worst
	}
	t.Logf("%d arrivals, at most %d in %v and %d in %v; at most %v late", len(all), count(window), window, count(window-50*time.Millisecond), window-50*time.Millisecond, late)
	if n := count(window - late); n > most {
		t.Errorf("%d arrived within %v; want %d at most", n, window-late, most)
	}
}

// node is a stint serve of its own.
type node struct {
	*exec.Cmd
	api string
}

// startNode starts one, which ends with the test.
func startNode(t *testing.T, binary, file string) *node {
	t.Helper()
	n := &node{Cmd: exec.Command(binary, "serve", "--config", file)}
	log, err := n.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	listening := regexp.MustCompile(`"transport":"api","address":"([^"]+)"`)
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- "http://" + m[1]
			} else if !strings.Contains(lines.Text(), `"level":"INFO"`) {
				t.Log(lines.Text())
			}
		}
		close(found)
	}()
	select {
	case n.api = <-found:
	case <-time.After(20 * time.Second):
	}
	if n.api == "" {
		t.Fatal("stint serve does not listen")
	}
	return n
}

// kill ends a node at once.
func (n *node) kill() {
	n.Process.Kill()
	n.Wait()
}

// post sends JSON to a node, and decodes the answer.
func (n *node) post(t *testing.T, path, body string, status int, answer any) {
	t.Helper()
	resp, err := http.Post(n.api+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("POST %s: %d %.300s, %v; want %d", path, resp.StatusCode, text, err, status)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			t.Fatal(err)
		}
	}
}

// book books events for a time in some seconds.
func (n *node) book(t *testing.T, prefix string, events int, in time.Duration) {
	t.Helper()
	var items []string
	for i := range events {
		items = append(items, fmt.Sprintf(`{"eventId":"%s-%04d"}`, prefix, i))
	}
	var answer struct{ Booked int }
	at := time.Now().Add(in).UTC().Format(time.RFC3339Nano)
	n.post(t, "/api/v1/slots/batch", fmt.Sprintf(`{"requestedTime":%q,"events":[%s]}`, at, strings.Join(items, ",")), http.StatusOK, &answer)
	if answer.Booked != events {
		t.Fatalf("%d of %d are booked", answer.Booked, events)
	}
}

// TestDelivery has processes of their own deliver to a receiver, from one database.
func TestDelivery(t *testing.T) {
	url := servertest.StartPostgres(t).URL
	key := []byte("a secret of thirty-two bytes....")
	t.Setenv("STINT_TEST_SLOTS", url)
	t.Setenv("STINT_TEST_SECRET", "whsec_"+base64.StdEncoding.EncodeToString([]byte("another one, which will be used soon"))+" whsec_"+base64.StdEncoding.EncodeToString(key))
	if code, _, errs := stint(t, "migrate", "--store", url); code != exitOK {
		t.Fatal(errs)
	}
	binary := filepath.Join(buildAll(t), "stint")
	file := filepath.Join(t.TempDir(), "stint.yaml")
	const text = `version: 1
listen: {api: 127.0.0.1:0}
log: {format: json}
slots: {store: env:STINT_TEST_SLOTS, delivery: {secret: env:STINT_TEST_SECRET, timeout: 2s, attempts: 2}}
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	const most, window = 100, 4 * time.Second
	h := receive(t, key)
	whole := t // nodes outlive the part of the test that starts them
	one, two := startNode(whole, binary, file), startNode(whole, binary, file)
	one.post(t, "/admin/rate-limit/config", fmt.Sprintf(`{"maxPerWindow":%d,"windowSize":"PT4S","delivery":{"url":%q}}`, most, h.URL+"/hooks"), http.StatusCreated, nil)

	t.Run("each event once, at its slot", func(t *testing.T) {
		one.book(t, "first", 150, time.Second)
		two.book(t, "second", 150, time.Second)
		for _, prefix := range []string{"first", "second"} {
			for id, n := range h.wait(prefix, 150) {
				if n != 1 {
					t.Errorf("%s was delivered %d times", id, n)
				}
			}
		}
		keep(t, h.arrivals(""), most, window)
		metrics := ""
		for _, n := range []*node{one, two} {
			resp, err := http.Get(n.api + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			metrics += string(text)
		}
		for _, want := range []string{`stint_slot_delivery_events_total{config="default",outcome="delivered"} `, `stint_slot_delivery_lateness_seconds_count `} {
			if !strings.Contains(metrics, want) {
				t.Errorf("the metrics lack %s", want)
			}
		}
	})
	t.Run("a node is killed", func(t *testing.T) {
		one.book(t, "killed", 200, time.Second)
		for began := time.Now(); len(h.arrivals("killed")) < 50; time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal("nothing arrives")
			}
		}
		one.kill()
		killed := time.Now()
		twice := 0
		for id, n := range h.wait("killed", 200) {
			if n > 1 {
				twice++ // it was under way
			}
			if n > 2 {
				t.Errorf("%s was delivered %d times", id, n)
			}
		}
		t.Logf("all had arrived %v after the kill, %d of them twice", time.Since(killed), twice)
		keep(t, h.arrivals("killed"), most, window)
	})
	t.Run("nobody delivers for a while", func(t *testing.T) {
		two.book(t, "overdue", 300, 200*time.Millisecond)
		two.kill()
		before := len(h.arrivals("overdue"))
		time.Sleep(13 * time.Second) // which all of them need, and more
		if n := len(h.arrivals("overdue")); n > before+100 {
			t.Fatalf("%d have arrived while nobody was there", n)
		}
		one, two = startNode(whole, binary, file), startNode(whole, binary, file)
		two.book(t, "ahead", 100, time.Second)
		h.wait("overdue", 300)
		for id, n := range h.wait("ahead", 100) {
			if n != 1 {
				t.Errorf("%s was delivered %d times", id, n)
			}
		}
		var all []arrival
		for _, a := range h.arrivals("") {
			if strings.HasPrefix(a.id, "overdue") || strings.HasPrefix(a.id, "ahead") {
				all = append(all, a)
			}
		}
		keep(t, all, most, window)
	})
	t.Run("the receiver refuses", func(t *testing.T) {
		h.answer(http.StatusGone)
		one.book(t, "gone", 3, 0)
		h.wait("gone", 3)
		var out string
		for began := time.Now(); strings.Count(out, "gone-") < 3; time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("the dead letters are\n%s", out)
			}
			var code int
			var errs string
			if code, out, errs = stint(t, "slots", "dead", "--store", url); code != exitOK {
				t.Fatal(errs)
			}
		}
		if !regexp.MustCompile(`(?m)^gone-0001\t.*\t1 attempts\t410\tthe receiver answers 410 Gone$`).MatchString(out) {
			t.Errorf("the dead letters are\n%s", out)
		}
		h.answer(http.StatusOK)
		if code, out, errs := stint(t, "slots", "redrive", "--store", url, "gone-0001", "nobody"); code != exitFailed || out != "1 redriven\n" || errs != "nobody: no such event\nstint: 1 events are not redriven\n" {
			t.Errorf("redrive of one: %d %q %q", code, out, errs)
		}
		var answer struct{ Redriven int }
		two.post(t, "/api/v1/slots/dead/redrive", `{}`, http.StatusOK, &answer)
		if answer.Redriven != 2 {
			t.Errorf("%d are redriven, want the other 2", answer.Redriven)
		}
		for began := time.Now(); len(h.arrivals("gone")) < 6; time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("of 3 that were redriven %d have arrived", len(h.arrivals("gone"))-3)
			}
		}
	})
}
