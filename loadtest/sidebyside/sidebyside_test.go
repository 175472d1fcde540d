package sidebyside

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

type result struct {
	PerSecond  float64       `json:"per_second"`
	Took       time.Duration `json:"took_ns"`
	FirstError string        `json:"first_error,omitempty"`
}

// TestMeasure measures two ways in two groups, three rounds of each.
func TestMeasure(t *testing.T) {
	r := &Report[struct{}, result]{Rounds: 3, Groups: []Group[result]{
		NewGroup[result]("few", "", []string{"a", "b"}), NewGroup[result]("many", "", []string{"a", "b"}),
	}}
	var order, progress strings.Builder
	err := r.Measure(t.Context(), &progress, func(_ context.Context, group, way int) (*result, error) {
		order.WriteString(string("fm"[group]) + string("ab"[way]) + " ")
		return &result{PerSecond: float64(order.Len() % 7), Took: time.Duration(-order.Len())}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("fa fb ma mb ", 3); order.String() != want {
		t.Errorf("measured %s, want %s", &order, want)
	}
	if want := "round 1 of 3: few: a\nround 1 of 3: few: b\n"; !strings.HasPrefix(progress.String(), want) || strings.Count(progress.String(), "\n") != 12 {
		t.Errorf("progress is\n%s", &progress)
	}
	// After 3, 15 and 27 bytes: 3, 1 and 6 a second.
	if got := r.Groups[0].Ways[0]; got.Median != (result{PerSecond: 3, Took: -15}) || len(got.Rounds) != 3 {
		t.Errorf("%+v", got)
	}
	err = r.Measure(t.Context(), nil, func(context.Context, int, int) (*result, error) { return nil, errors.New("gone") })
	if err == nil || err.Error() != "few: a: gone" {
		t.Errorf("%v", err)
	}
}

func TestWriteMarkdown(t *testing.T) {
	r := &Report[struct{}, result]{
		Ways:    "way",
		Columns: []Column[result]{Show("per second", func(r *result) string { return fmt.Sprint(r.PerSecond) })},
		Groups:  []Group[result]{NewGroup[result]("few", "only two", []string{"a", "b"}), NewGroup[result]("many", "", []string{"a"})},
	}
	r.Groups[0].Ways[1].Rounds = []result{{PerSecond: 3}}
	r.TakeMedians()
	var out strings.Builder
	if err := r.WriteMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	const want = "\nfew: only two\n\n| way | per second |\n|---|---:|\n| a | 0 |\n| b | 3 |\n\nmany\n\n| way | per second |\n|---|---:|\n| a | 0 |\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestMedians(t *testing.T) {
	for _, tt := range []struct {
		rounds []result
		want   result
	}{
		{nil, result{}},
		{[]result{{PerSecond: 3, Took: 9}, {PerSecond: 1, Took: 1, FirstError: "gone"}, {PerSecond: 2, Took: 2, FirstError: "late"}}, result{2, 2, "gone"}},
		{[]result{{PerSecond: 3}, {PerSecond: 1}}, result{PerSecond: 1}}, // the lower one
	} {
		if got := medians(tt.rounds); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.rounds, got, tt.want)
		}
	}
}

func TestPathTellsNoURL(t *testing.T) {
	if _, err := (Schema{Name: "x"}).Path("postgres://a b/"); err == nil || strings.Contains(err.Error(), "a b") {
		t.Errorf("%v", err)
	}
	u, err := Schema{Name: "x"}.Path("postgres://host/db?sslmode=disable", "public")
	if err != nil || u.Query().Get("search_path") != "x,public" || u.Query().Get("sslmode") != "disable" {
		t.Errorf("%v, %v", u, err)
	}
}
