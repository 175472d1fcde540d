package slotrest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
	"github.com/stint-dev/stint/transport/slotrest"
)

// BenchmarkBook books for one instant in a ledger in memory: through the handler, and
// without it, which is what there is to compare with.
func BenchmarkBook(b *testing.B) {
	const batch = 1000
	at := plan.At(time.Date(2099, 6, 1, 12, 0, 0, 0, time.UTC))
	scheduler := func(b *testing.B) (*slots.Scheduler, slots.Ledger) {
		l := slotstest.NewMemory(func() plan.Ticks { return at - plan.Day })
		s := slots.New(l, nil)
		b.Cleanup(func() { s.Close() })
		if _, err := s.Configure(b.Context(), "default", slots.Version{Version: plan.Version{Max: 100, Window: 4 * plan.Second}}); err != nil {
			b.Fatal(err)
		}
		return s, l
	}
	post := func(b *testing.B, h http.Handler, path, body string) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Error(w.Code, w.Body)
		}
	}
	var n atomic.Int64
	b.Run("single/scheduler", func(b *testing.B) {
		s, _ := scheduler(b)
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := s.Book(b.Context(), "default", slots.Request{ID: fmt.Sprint("payment-", n.Add(1)), At: at}); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("single/handler", func(b *testing.B) {
		s, l := scheduler(b)
		h := slotrest.New(s, l, nil)
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				post(b, h, "/api/v1/slots", fmt.Sprintf(`{"eventId": "payment-%d", "requestedTime": "2099-06-01T12:00:00Z"}`, n.Add(1)))
			}
		})
	})
	b.Run("batch/scheduler", func(b *testing.B) {
		s, _ := scheduler(b)
		b.ReportAllocs()
		for b.Loop() {
			requests := make([]slots.Request, batch)
			for i := range requests {
				requests[i] = slots.Request{ID: fmt.Sprint("payment-", n.Add(1)), At: at}
			}
			if _, err := s.BookAll(b.Context(), "default", requests); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/event")
	})
	b.Run("batch/handler", func(b *testing.B) {
		s, l := scheduler(b)
		h := slotrest.New(s, l, nil)
		b.ReportAllocs()
		for b.Loop() {
			var body strings.Builder
			body.WriteString(`{"requestedTime": "2099-06-01T12:00:00Z", "events": [`)
			for i := range batch {
				if i > 0 {
					body.WriteByte(',')
				}
				fmt.Fprintf(&body, `{"eventId": "payment-%d"}`, n.Add(1))
			}
			body.WriteString("]}")
			post(b, h, "/api/v1/slots/batch", body.String())
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/event")
	})
}
