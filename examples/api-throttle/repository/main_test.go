package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// An export takes its time, and ends when its caller goes; all else is answered at once.
func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		for _, c := range []struct {
			ctx            context.Context
			method, target string
			want           string
			took           time.Duration
		}{
			{t.Context(), "DELETE", "/repo/v1/entity/syn12", "DELETE /repo/v1/entity/syn12\n", 0},
			{gone, "GET", "/repo/v1/export", "", time.Second},
			{t.Context(), "GET", "/repo/v1/export", "all of it\n", exportTime},
		} {
			began := time.Now()
			w := httptest.NewRecorder()
			newService().ServeHTTP(w, httptest.NewRequestWithContext(c.ctx, c.method, c.target, nil))
			if took := time.Since(began); w.Code != http.StatusOK || w.Body.String() != c.want || took != c.took {
				t.Errorf("%s %s: %d %q after %v", c.method, c.target, w.Code, w.Body, took)
			}
		}
	})
}
