package slotrest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

const hook = `"delivery":{"url":"https://example.com/hooks?key=1"}`

// newDeliveringAPI returns an API with a config, default, that delivers.
func newDeliveringAPI(t testing.TB) *testAPI {
	a := newTestAPIWith(t, func(l slots.Ledger) slots.Ledger { return l }, &Options{Delivers: true})
	got := answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", `{"maxPerWindow":10,"windowSize":"PT4S",`+hook+`}`)
	if got.Delivery == nil || got.Delivery.URL != "https://example.com/hooks?key=1" {
		t.Fatalf("made: %+v", got)
	}
	return a
}

func TestDeliveryIsPartOfAConfig(t *testing.T) {
	a := newDeliveringAPI(t)
	if got := answered[Config](t, a, 200, "GET", "/admin/rate-limit/config", ""); got.Delivery == nil || got.Delivery.URL != "https://example.com/hooks?key=1" {
		t.Errorf("read: %+v", got)
	}
	a.configure(t, "default", 10, "PT4S")
	if got := answered[Config](t, a, 200, "GET", "/admin/rate-limit/config", ""); got.Delivery != nil {
		t.Errorf("read after a version without: %+v", got)
	}
	for _, test := range []struct{ delivery, want string }{
		{`{}`, "delivery.url: missing"},
		{`null`, "delivery: "},
		{`"https://example.com"`, "delivery: "},
		{`{"url":"https://example.com","secret":"s"}`, "delivery.secret: unknown field"},
		{`{"url":""}`, "delivery.url: this is not the URL of a receiver; an http or https URL is, such as https://example.com/hooks/stint"},
		{`{"url":"ftp://example.com"}`, "delivery.url: this is not the URL of a receiver"},
		{`{"url":"https://"}`, "delivery.url: this is not the URL of a receiver"},
		{`{"url":"example.com/hooks"}`, "delivery.url: this is not the URL of a receiver"},
		{`{"url":"https://user:hunter2@example.com"}`, "delivery.url: a user or password in the URL is not allowed"},
		{`{"url":"https://example.com/#part"}`, "delivery.url: a # in the URL is not allowed"},
		{`{"url":"https://example.com/\\u0000"}`, "delivery.url: this is not a URL"},
		{`{"url":"https://example.com/` + strings.Repeat("x", 2048) + `"}`, "delivery.url: a URL of 2068 bytes is not allowed; at most 2048 are"},
	} {
		w := a.do(t, "POST", "/admin/rate-limit/config", `{"maxPerWindow":10,"windowSize":"PT4S","delivery":`+strings.ReplaceAll(test.delivery, `\\`, `\`)+`}`)
		if p := problemOf(t, w); w.Code != http.StatusBadRequest || !strings.HasPrefix(p.Detail, test.want) || strings.Contains(p.Detail, "hunter2") {
			t.Errorf("%.80s: %d %s, want 400 %s", test.delivery, w.Code, w.Body, test.want)
		}
	}
	// Where nobody delivers, nobody may ask for it.
	w := newTestAPI(t).do(t, "POST", "/admin/rate-limit/config", `{"maxPerWindow":10,"windowSize":"PT4S",`+hook+`}`)
	if p := problemOf(t, w); w.Code != http.StatusUnprocessableEntity || !strings.Contains(p.Detail, "slots.delivery.secret") {
		t.Errorf("where nobody delivers: %d %s", w.Code, w.Body)
	}
}

func TestDeadLetters(t *testing.T) {
	a := newDeliveringAPI(t)
	o := a.ledger.(slots.Outbox)
	var ids []string
	for i := range 25 {
		ids = append(ids, fmt.Sprintf("pay/%02d", i))
		a.book(t, ids[i])
	}
	claimed, _, err := o.Claim(t.Context(), slots.Claim{From: -plan.Hour, Until: plan.Hour, Limit: 100, Lease: 1, For: plan.Minute})
	if err != nil || len(claimed) != 25 {
		t.Fatalf("%d are claimed, %v", len(claimed), err)
	}
	for _, id := range ids {
		if err := o.Settle(t.Context(), "default", []slots.Settled{{ID: id, Lease: 1, Fate: slots.Died, Attempts: 3, Status: 502, Error: "bad gateway"}}); err != nil {
			t.Fatal(err)
		}
		a.now.Add(1)
	}
	var got []string
	cursor := ""
	for {
		page := answered[DeadLetters](t, a, 200, "GET", "/api/v1/slots/dead?limit=10"+cursor, "")
		for _, d := range page.Dead {
			got = append(got, d.EventID)
			if d.Attempts != 3 || d.Status != 502 || d.Error != "bad gateway" || d.RequestedTime != "2025-06-01T12:00:00Z" || d.DeadSince == "" {
				t.Errorf("dead letter %+v", d)
			}
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	if page := answered[DeadLetters](t, a, 200, "GET", "/api/v1/slots/dead", ""); len(page.Dead) != 25 || page.NextCursor != "" {
		t.Errorf("in one page there are %d, and then %q", len(page.Dead), page.NextCursor)
	}
	some := answered[Redriven](t, a, 200, "POST", "/api/v1/slots/dead/redrive", `{"eventIds":["pay/03","nobody","pay/07","pay/03"]}`)
	if diff := cmp.Diff(Redriven{"default", 2, []string{"nobody", "pay/03"}}, some); diff != "" {
		t.Errorf("two of them redriven (-want +got):\n%s", diff)
	}
	if all := answered[Redriven](t, a, 200, "POST", "/api/v1/slots/dead/redrive", `{"configName":"default"}`); all.Redriven != 23 || all.NotDead != nil {
		t.Errorf("the others redriven: %+v", all)
	}
	if none := answered[Redriven](t, a, 200, "POST", "/api/v1/slots/dead/redrive", `{}`); none.Redriven != 0 {
		t.Errorf("redriven when none is left: %+v", none)
	}
	claimed, _, err = o.Claim(t.Context(), slots.Claim{From: -plan.Hour, Until: plan.Hour, Limit: 100, Lease: 2, For: plan.Minute})
	if err != nil || len(claimed) != 25 || claimed[0].Attempts != 0 || claimed[0].Due < plan.Ticks(a.now.Load()) {
		t.Errorf("%d are to be delivered, %v: %+v", len(claimed), err, claimed[:1])
	}
	for body, want := range map[string]string{
		`{"eventIds":"pay-1"}`: "eventIds: ",
		`{"eventIds":[""]}`:    "eventIds[0]: ",
		`{"eventIds":[` + strings.Repeat(`"a",`, 1000) + `"a"]}`: "eventIds[1000]: more than 1000; send several requests",
		`{"ids":[]}`: "ids: unknown field",
	} {
		w := a.do(t, "POST", "/api/v1/slots/dead/redrive", body)
		if p := problemOf(t, w); w.Code != 400 || !strings.HasPrefix(p.Detail, want) {
			t.Errorf("%.60s: %d %s, want 400 %s", body, w.Code, w.Body, want)
		}
	}
}
