package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// BenchmarkDecisions puts one question on the API and on a handler that reads and
// writes the same JSON with package encoding/json and decides nothing. The server
// around them is left out.
func BenchmarkDecisions(b *testing.B) {
	const body = `{"descriptors":[{"attributes":{"client":"client-000001"}}]}`
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name:   "clients",
		Key:    []string{"client"},
		Limits: []rules.LimitSpec{{Quota: 1_000_000_000, Window: rules.Duration(time.Hour)}},
	}}})
	if set == nil {
		b.Fatal(problems)
	}
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set}, nil)
	for _, bench := range []struct {
		name    string
		handler http.Handler
	}{
		{"empty", http.HandlerFunc(empty)},
		{"stint", New(g, nil)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/decisions", nil)
			r.Header.Set("Content-Type", "application/json")
			w := discard{make(http.Header)}
			text := bytes.NewReader([]byte(body))
			r.Body = io.NopCloser(text)
			b.ReportAllocs()
			for b.Loop() {
				text.Seek(0, io.SeekStart)
				clear(w.header)
				bench.handler.ServeHTTP(w, r)
			}
		})
	}
}

func empty(w http.ResponseWriter, r *http.Request) {
	var ask Ask
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(Answer{Allowed: true, Decisions: []Decision{{Rule: "clients", Policy: "clients", Allowed: true, Limit: 1_000_000_000, Remaining: 999_999_999, ResetAfterMS: 1}}})
}

// discard is an answer that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(status int) {
	if status != http.StatusOK {
		panic(status)
	}
}
