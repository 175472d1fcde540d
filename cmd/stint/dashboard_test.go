package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
)

// TestDashboard runs the query of every panel of the Grafana dashboard on a
// Prometheus that scrapes both examples, and a process with seats and slots, under
// traffic. Each must return data.
func TestDashboard(t *testing.T) {
	postgres := servertest.StartPostgres(t)
	bin := buildExamples(t)
	portal := startExample(t, bin, "partner-portal", postgres.URL)
	oauth := startExample(t, bin, "oauth", postgres.URL)
	seats := startSeatsAndSlots(t)
	apis := slices.Concat(portal.apis, oauth.apis, []string{strings.TrimPrefix(seats.api, "http://")})
	prometheus := servertest.StartPrometheus(t, "stint", time.Second, apis...)

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ctx.Err() == nil; i++ {
			traffic(ctx, portal.proxies[i%2], oauth.proxies[i%3], i)
			seats.crowd(ctx, i)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	defer func() { cancel(); <-stopped }()

	panels := readPanels(t)
	if len(panels) < 26 {
		t.Errorf("the dashboard has %d panels, want the 14 of both examples, 8 of seats and slots, and more", len(panels))
	}
	for _, p := range panels {
		for _, target := range p.Targets {
			if err := returnsData(prometheus.URL, target.Expr); err != nil {
				t.Errorf("panel %q: %v: %s", p.Title, err, target.Expr)
			}
		}
	}
}

// traffic is one request of each kind to a portal and a token endpoint.
func traffic(ctx context.Context, portal, auth string, i int) {
	send := func(method, url, contentType, body string) {
		r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		r.Header.Set("Content-Type", contentType)
		r.SetBasicAuth("demo-app", "demo-secret")
		if answer, err := http.DefaultClient.Do(r); err == nil {
			answer.Body.Close()
		}
	}
	user := fmt.Sprint("user-", i%5)
	send("POST", "http://"+portal+"/items/create", "application/json", `{"user":"`+user+`","itemName":"stapler"}`)
	send("GET", "http://"+portal+"/items/"+user, "", "")
	form := url.Values{"grant_type": {"password"}, "username": {"alex"}, "password": {"alex-password"}}
	send("POST", "http://"+auth+"/oauth/token", "application/x-www-form-urlencoded", form.Encode())
}

// startSeatsAndSlots starts a process with a single seat for a tenant that nobody may
// wait for, and with slots that are delivered.
func startSeatsAndSlots(t *testing.T) *process {
	key := []byte("a secret of thirty-two bytes....")
	t.Setenv("STINT_TEST_SECRET", "whsec_"+base64.StdEncoding.EncodeToString(key))
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) })
	p := serve(t, slow, `
identity: {trusted_proxies: [127.0.0.1/32], attributes: {tenant: [{header: {name: X-Tenant}}]}}
isolation: {seats: 4, tenant: tenant, plans: {default: {max_seats: 1, queue: 0}}}
slots: {store: "sqlite:`+filepath.Join(t.TempDir(), "slots.db")+`", delivery: {secret: env:STINT_TEST_SECRET}}
`)
	config := fmt.Sprintf(`{"maxPerWindow":1000,"windowSize":"PT1S","delivery":{"url":%q}}`, receive(t, key).URL)
	answer, err := http.Post(p.api+"/admin/rate-limit/config", "application/json", strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
	return p
}

// crowd is two requests of a tenant at the same time, and an event for now.
func (p *process) crowd(ctx context.Context, i int) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", p.proxy, nil)
			r.Header.Set("X-Tenant", "crowd")
			if answer, err := http.DefaultClient.Do(r); err == nil {
				answer.Body.Close()
			}
		})
	}
	event := fmt.Sprintf(`{"eventId":"event-%d","requestedTime":%q}`, i, time.Now().UTC().Format(time.RFC3339))
	r, _ := http.NewRequestWithContext(ctx, "POST", p.api+"/api/v1/slots", strings.NewReader(event))
	r.Header.Set("Content-Type", "application/json")
	if answer, err := http.DefaultClient.Do(r); err == nil {
		answer.Body.Close()
	}
	both.Wait()
}

type panel struct {
	Type, Title string
	Targets     []struct{ Expr string }
}

func readPanels(t *testing.T) []panel {
	text, err := os.ReadFile("../../deploy/grafana/stint.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var shown []panel
	for _, p := range dashboard.Panels {
		if p.Type != "row" {
			shown = append(shown, p)
		}
	}
	return shown
}

// returnsData asks prometheus until query returns a number.
func returnsData(prometheus, query string) error {
	query = strings.NewReplacer("$__rate_interval", "10s", "$job", ".+").Replace(query)
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if err = ask(prometheus, query); err == nil {
			return nil
		}
	}
	return err
}

func ask(prometheus, query string) error {
	answer, err := http.Get(prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var found struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		return err
	}
	if found.Status != "success" {
		return fmt.Errorf("%s", found.Error)
	}
	for _, r := range found.Data.Result {
		if r.Value[1] != "NaN" {
			return nil
		}
	}
	return fmt.Errorf("%d series and no number", len(found.Data.Result))
}
