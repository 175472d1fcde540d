package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/loadtest/chart"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

// fleet is some processes of stint serve that share a store, and one config of it.
type fleet struct {
	store  string
	config string
	nodes  []*servertest.Process
	http   *http.Client
}

// startFleet starts so many processes, which serve until the test ends, and makes a
// config of most slots in a window.
func startFleet(t *testing.T, bin, store string, nodes, most int, window string) *fleet {
	t.Helper()
	f := &fleet{store: store, config: t.Name(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: 20 * time.Second}}
	bench(t, bin, "migrate", "--store", store)
	for n := range nodes {
		address := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
		file := filepath.Join(t.TempDir(), "stint.yaml")
		text := "version: 1\nlisten: {api: " + address + "}\nslots: {store: env:STINT_TEST_STORE}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, servertest.StartProgram(t, fmt.Sprint("node ", n), address, "http://"+address+"/readyz", func() *exec.Cmd {
			c := exec.Command(filepath.Join(bin, "stint"), "serve", "--config", file)
			c.Env = append(os.Environ(), "STINT_TEST_STORE="+store)
			return c
		}))
	}
	t.Cleanup(f.http.CloseIdleConnections)
	f.configure(t, most, window)
	return f
}

// configure sets the config and returns how long that took.
func (f *fleet) configure(t *testing.T, most int, window string) time.Duration {
	t.Helper()
	began := time.Now()
	body := map[string]any{"configName": f.config, "maxPerWindow": most, "windowSize": window}
	if status, err := f.call(t.Context(), 0, http.MethodPost, "/admin/rate-limit/config", body, nil); err != nil || status != http.StatusCreated {
		t.Fatalf("the config: status %d, %v", status, err)
	}
	return time.Since(began)
}

// call sends one request to a node.
func (f *fleet) call(ctx context.Context, node int, method, path string, body, answer any) (status int, err error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+f.nodes[node%len(f.nodes)].Address+path, bytes.NewReader(sent))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := f.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode < 400 && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err == nil && resp.StatusCode >= 400 {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, text)
	}
	return resp.StatusCode, err
}

// persist sends a request, to one node after another, until one answers other than
// that it can't now, for a minute at most.
func (f *fleet) persist(ctx context.Context, node int, method, path string, body, answer any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for ; ; node++ {
		status, err = f.call(ctx, node, method, path, body, answer)
		if err == nil || status >= 400 && status < 500 || ctx.Err() != nil {
			return status, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// slotAnswer is what the API says of a booking.
type slotAnswer struct {
	Status        int       `json:"status"` // of a batch's
	EventID       string    `json:"eventId"`
	ScheduledTime time.Time `json:"scheduledTime"`
	Repeated      bool      `json:"repeated"`
}

// answers is what callers have been told. It is safe for simultaneous use.
type answers struct {
	name string // what the ids of its events begin with

	mu       sync.Mutex
	at       map[string]plan.Ticks // of those that are booked
	took     []time.Duration
	repeated int // that were told of an earlier answer, which they never got
	begun    time.Time
	lasted   time.Duration
}

func newAnswers(name string) *answers {
	return &answers{name: name, at: make(map[string]plan.Ticks), begun: time.Now()}
}

// id is that of the nth event.
func (a *answers) id(n int64) string { return fmt.Sprint(a.name, "-", n) }

func (a *answers) add(id string, r slotAnswer, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[id] = plan.At(r.ScheduledTime)
	a.took = append(a.took, took)
	if r.Repeated {
		a.repeated++
	}
}

func (a *answers) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.at, id)
}

func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// String are the figures.
func (a *answers) String() string {
	slices.Sort(a.took)
	at := func(permille int) string { return chart.Duration(a.took[(len(a.took)-1)*permille/1000]) }
	return fmt.Sprintf("%d booked in %v, %.0f/s; p50 %s, p99 %s, p99.9 %s, longest %s; %d had been booked by a request that was not answered",
		len(a.at), a.lasted.Round(time.Millisecond), float64(len(a.at))/a.lasted.Seconds(), at(500), at(990), at(999), at(1000), a.repeated)
}

// single has callers book one event after another, for the instants that at says,
// until n are booked or ctx ends. Each caller begins with another node. Every tenth
// event is cancelled again if cancels.
func (f *fleet) single(ctx context.Context, t *testing.T, a *answers, callers int, n int64, cancels bool, at func(n int64) time.Time) {
	var last atomic.Int64
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			for i := last.Add(1); i <= n && ctx.Err() == nil; i = last.Add(1) {
				id := a.id(i)
				if err := f.bookOne(t.Context(), a, c, id, at(i), time.Now()); err != nil {
					t.Error(err)
					return
				}
				if cancels && i%10 == 0 {
					if _, err := f.persist(t.Context(), c, http.MethodDelete, "/api/v1/slots/"+id+"?configName="+url.QueryEscape(f.config), nil, nil); err != nil {
						t.Error(err)
						return
					}
					a.remove(id)
				}
			}
		})
	}
	running.Wait()
	a.lasted = time.Since(a.begun)
}

// bookOne books an event, and counts how long that took since it was due.
func (f *fleet) bookOne(ctx context.Context, a *answers, node int, id string, at, due time.Time) error {
	var r slotAnswer
	body := map[string]any{"eventId": id, "configName": f.config, "requestedTime": at.UTC()}
	if _, err := f.persist(ctx, node, http.MethodPost, "/api/v1/slots", body, &r); err != nil {
		return err
	}
	a.add(id, r, time.Since(due))
	return nil
}

// batches books n events for one instant in batches of size, by some callers.
func (f *fleet) batches(t *testing.T, a *answers, callers, n, size int, at time.Time) {
	var last atomic.Int64
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			for from := int(last.Add(int64(size))) - size; from < n; from = int(last.Add(int64(size))) - size {
				var events []map[string]string
				for i := from; i < min(n, from+size); i++ {
					events = append(events, map[string]string{"eventId": a.id(int64(i))})
				}
				var answer struct{ Results []slotAnswer }
				began := time.Now()
				body := map[string]any{"configName": f.config, "requestedTime": at.UTC(), "events": events}
				if _, err := f.persist(t.Context(), c, http.MethodPost, "/api/v1/slots/batch", body, &answer); err != nil || len(answer.Results) != len(events) {
					t.Errorf("a batch of %d has %d results, %v", len(events), len(answer.Results), err)
					return
				}
				took := time.Since(began)
				for _, r := range answer.Results {
					if r.Status != http.StatusOK {
						t.Errorf("%s is refused: status %d", r.EventID, r.Status)
					}
					a.add(r.EventID, r, took)
				}
			}
		})
	}
	running.Wait()
	a.lasted = time.Since(a.begun)
}

// audit looks into the ledger. Nothing may be wrong with it, and it must hold what
// the callers were told, and nothing else.
func (f *fleet) audit(t *testing.T, told *answers) *slotstest.Report {
	t.Helper()
	var report *slotstest.Report
	f.withLedger(t, func(l slots.Ledger) {
		var err error
		if report, err = slotstest.Audit(t.Context(), l, f.config); err != nil {
			t.Fatalf("the ledger: %v", err)
		}
	})
	if len(report.Events) != len(told.at) {
		t.Errorf("%d events are booked, and callers were told so of %d", len(report.Events), len(told.at))
	}
	for _, e := range report.Events {
		if at, ok := told.at[e.ID]; !ok || at != e.At {
			t.Fatalf("%s is booked for %v, and its caller was told %v", e.ID, e.At.Time(), at.Time())
		}
	}
	return report
}

// withLedger calls do with the ledger of the store that the nodes share.
func (f *fleet) withLedger(t *testing.T, do func(l slots.Ledger)) {
	t.Helper()
	kind, err := server.StoreOf(stores, f.store)
	if err != nil {
		t.Fatal(err)
	}
	store, err := kind.Open(t.Context(), f.store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	do(store.(interface{ Ledger() slots.Ledger }).Ledger())
}
