package client

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// FuzzPause: whatever a service says, a pause is no less than nothing.
func FuzzPause(f *testing.F) {
	f.Add(429, "7", `"a";r=0;t=5`, "0", "3")
	f.Add(200, "Sat, 01 Jan 2000 00:00:09 GMT", `"a\";,";r=0;t=5,;;"`, "", "946684803")
	f.Fuzz(func(t *testing.T, status int, after, limit, remaining, reset string) {
		h := http.Header{"Retry-After": {after}, "Ratelimit": {limit}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}}
		if d := pause(&http.Response{StatusCode: status, Header: h}, time.Unix(946684800, 0)); d < 0 {
			t.Errorf("%v for %v", d, h)
		}
	})
}

func TestPausesAreBounded(t *testing.T) {
	p := NewThrottle(nil)
	for i := range 2 * maxPauses {
		p.setPause(fmt.Sprint(i), time.Duration(i+1)*time.Hour)
		if len(p.pauses) > maxPauses {
			t.Fatalf("%d pauses", len(p.pauses))
		}
		if i == maxPauses+10 {
			break // each costs a look at all of them
		}
	}
	if p.paused(fmt.Sprint(maxPauses+5)) == 0 || p.paused("0") != 0 {
		t.Error("not the pause that ends first was forgotten")
	}
}
