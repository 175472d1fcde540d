package peers

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
)

var (
	write  = flag.String("write", "", "the folder whose benchmarks.md and peers.svg to write")
	rounds = flag.Int("rounds", 1, "how often everything is measured")
	span   = flag.Duration("span", 100*time.Millisecond, "how long a measurement is")
	only   = flag.String("only", "", "measure only groups and ways, such as REST/stint, that contain this")
)

func TestMain(m *testing.M) {
	if serveFloor() {
		return
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// plenty is a quota for an hour that no measurement uses up.
const plenty = 1_000_000_000

// TestPeers measures every subject under every load.
func TestPeers(t *testing.T) {
	report := newReport(chosen(), *rounds, *span)
	began := machine(t)
	err := report.Measure(t.Context(), os.Stderr, func(_ context.Context, group, way int) (*result, error) {
		var r *result
		l := report.loads[group]
		s := l.subjects[way]
		t.Run(l.name+"/"+s.name, func(t *testing.T) { r = measure(t, l, s) })
		if r == nil && *write != "" {
			return nil, fmt.Errorf("was not measured")
		} else if r == nil {
			r = new(result) // a server is not installed, or the test has failed
		}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var text, picture bytes.Buffer
	if err := report.WriteMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteChart(&picture); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", began, &text)
	if *write == "" {
		return
	}
	page := filepath.Join(*write, "benchmarks.md")
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	made, err := between(string(old), began+"\n"+text.String())
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	for file, content := range map[string][]byte{page: []byte(made), filepath.Join(*write, "peers.svg"): picture.Bytes()} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// chosen returns the loads and subjects that -only asks for.
func chosen() (some []load) {
	for _, l := range loads {
		var subjects []subject
		for _, s := range l.subjects {
			if strings.Contains(l.name+"/"+s.name, *only) {
				subjects = append(subjects, s)
			}
		}
		if l.subjects = subjects; len(subjects) > 0 {
			some = append(some, l)
		}
	}
	return some
}

// measure starts s, warms it up and puts l on it.
func measure(t *testing.T, l load, s subject) *result {
	up := s.start(t, plenty)
	g := l.connect(t, up.address)
	defer g.close()
	if _, err := g.run(*span / 4); err != nil {
		t.Fatal(err)
	}
	before := look(t, up)
	did, err := g.run(*span)
	if err != nil {
		t.Fatal(err)
	}
	if did.denied > 0 || len(did.took) == 0 {
		t.Fatalf("%d of %d calls were denied", did.denied, len(did.took))
	}
	return newResult(before, look(t, up), did, l.descriptors)
}

// TestSubjectsLimit has every subject that limits do so.
func TestSubjectsLimit(t *testing.T) {
	for _, l := range loads {
		for _, s := range l.subjects {
			if s.unlimited {
				continue
			}
			t.Run(l.name+"/"+s.name, func(t *testing.T) {
				l := l
				l.connections, l.streams = 1, 1
				g := l.connect(t, s.start(t, 3).address)
				defer g.close()
				first, err := g.callers[0](0)
				if err != nil || !first {
					t.Fatalf("the first call: allowed %v, %v", first, err)
				}
				denied := 0
				for range 9 {
					allowed, err := g.callers[0](0)
					if err != nil {
						t.Fatal(err)
					}
					if !allowed {
						denied++
					}
				}
				if denied < 7 {
					t.Errorf("%d of 9 calls more were denied; the quota is 3", denied)
				}
			})
		}
	}
}

// look looks at what everything has used until now.
func look(t *testing.T, up running) usage {
	t.Helper()
	u := usage{at: time.Now(), server: up.server.Usage(t)}
	if up.redis != nil {
		u.redis = up.redis.Usage(t)
	}
	var upstream servertest.Usage
	if up.upstream != nil {
		upstream = up.upstream.Usage(t)
	}
	u.others = busy(t) - ownCPU(t) - u.server.CPU - u.redis.CPU - upstream.CPU
	return u
}
