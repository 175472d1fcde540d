package loadtest

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse: whatever a file holds, it is either a scenario that can be
// planned or has problems that say where.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, "rate: 50", "from: 1, to: 2, steps: 3", 1)))
	f.Add([]byte("name: &a [*a]"))
	f.Add([]byte("load: {phases: [{rate: 1e308, for: 1d}]}\ncompress: 1000"))
	f.Add([]byte("{limit: {quota: 9223372036854775807, window: 1ms, burst: 9223372036854775807}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, problems := Parse("s.yaml", data, 0)
		if (s == nil) != (len(problems) > 0) {
			t.Fatalf("%v and %d problems", s, len(problems))
		}
		for _, p := range problems {
			if p.Line < 1 || p.Message == "" || utf8.Valid(data) && !utf8.ValidString(p.Error()) {
				t.Errorf("%+v", p)
			}
		}
		if s == nil {
			return
		}
		if n := expected(s.segments()) * float64(s.Instances.Count); n > 100_000 {
			return // it would take long
		}
		for _, arrivals := range s.schedule() {
			for i := range arrivals {
				if at := arrivals[i].At; at < 0 || i > 0 && at < arrivals[i-1].At {
					t.Fatalf("request %d is due at %v", i, at)
				}
			}
		}
	})
}
