package isolation

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/loadtest/sidebyside"
)

// small is a replay that takes seconds and little of the machine: 5 tenants that need a
// quarter of the seats, and one that asks for three times what there are.
func small() *Options {
	return &Options{
		Tenants: 6, Devices: 5, Every: 5 * time.Second, Factor: 60,
		Duration: 4 * time.Second, Learning: 2 * time.Second, Patience: 4 * time.Second, Guarantees: []int{0, 90},
		Handlers: []Handler{
			{Name: "short", Seats: 4, Victims: 200 * time.Millisecond, Noisy: 200 * time.Millisecond},
		},
	}
}

// The one promise and its control: beside a noisy tenant nobody is refused, and without
// seats the service collapses. How long requests take is bounded generously, since the
// machine that runs this has other things to do.
func TestReplay(t *testing.T) {
	r, err := Run(t.Context(), small())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
	for _, why := range r.Failed() {
		t.Error(why)
	}
	control := r.way(t, unlimited)
	before := r.way(t, alone)
	if before.Refused+before.GivenUp+before.Errors > 0 || before.Asked < 15 {
		t.Errorf("alone: %+v", before)
	}
	for _, name := range []string{"stint 0 %", "stint 90 %"} {
		m := r.way(t, name)
		if m.P99 > control.P99/2 || m.P50 > control.P50/2 {
			t.Errorf("%s: p50 %v and p99 %v; without isolation %v and %v", name, m.P50, m.P99, control.P50, control.P99)
		}
		if m.Asked < 15 || m.Goodput != 1 {
			t.Errorf("%s: asked %d times, of which %v were good", name, m.Asked, m.Goodput)
		}
		if m.Utilisation < 0.5 || m.Utilisation > 1.001 || m.NoisyRefused == 0 {
			t.Errorf("%s: the noisy tenant was refused %d times, and %.0f %% of the seats were used", name, m.NoisyRefused, 100*m.Utilisation)
		}
	}
}

func (r *Report) way(t *testing.T, name string) *Result {
	t.Helper()
	i := slices.IndexFunc(r.Groups[0].Ways, func(w sidebyside.Way[Result]) bool { return w.Name == name })
	if i < 0 {
		t.Fatalf("no way %q", name)
	}
	return &r.Groups[0].Ways[i].Median
}

// report returns one with two ways in it.
func report(control Result) *Report {
	o := small().withDefaults()
	r := newReport(&o, []way{{name: alone}, {name: "stint 90 %"}, {name: unlimited}})
	good := Result{P50: 20e6, P99: 25e6, Asked: 100, Goodput: 1, Series: series(nil, time.Second)}
	good.Series[3] = Moment{At: 3e9, Every: 1e9, Asked: 2, Good: 1, P50: 20e6, Longest: 25e6}
	good.Series[4] = Moment{At: 4e9, Every: 1e9, Asked: 2, Good: 2, P50: 20e6, Longest: 2500e6}
	for i, m := range []Result{good, good, control} {
		r.Groups[0].Ways[i].Rounds = []Result{m}
	}
	r.TakeMedians()
	return r
}

func TestFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		control Result
		seats   func(*Result)
		want    []string
	}{
		"collapsed by goodput": {control: Result{P99: 30e6, Goodput: .5}},
		"collapsed by latency": {control: Result{P99: 75e6, Goodput: 1}},
		"not collapsed": {
			control: Result{P99: 74e6, Goodput: .95},
			want:    []string{"short: without isolation the others kept 95 % of their answers, with a p99 of 2.96 times; the load is too small to show anything"},
		},
		"refused": {
			control: Result{Goodput: 0},
			seats:   func(r *Result) { r.Refused = 3 },
			want:    []string{"short: stint 90 %: 3 requests of the others were refused and 0 not answered in time"},
		},
		"broken": {
			control: Result{Goodput: 0, Errors: 2, FirstError: "connection reset"},
			want:    []string{"short: none: 2 requests failed: connection reset"},
		},
	} {
		r := report(tt.control)
		if tt.seats != nil {
			tt.seats(&r.Groups[0].Ways[1].Median)
		}
		if diff := cmp.Diff(tt.want, r.Failed()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReportIsForPeopleAndPrograms(t *testing.T) {
	r := report(Result{P50: 500e6, P99: 2500e6, Goodput: .5, Asked: 100, Refused: 50, Utilisation: 1})
	var table, chart, data bytes.Buffer
	for _, err := range []error{r.WriteTable(&table), r.WriteChart(&chart), r.WriteJSON(&data)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"none", "25.00", "100.00", "50.0 %", // what it took against alone, and goodput
		"short: 25 ms to 2500 ms",
		"stint 90 %     ▁█     |", "▅█", // the course
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if !json.Valid(data.Bytes()) || !strings.Contains(data.String(), `"series"`) {
		t.Errorf("JSON: %s", data.String())
	}
	lines := 0
	for d := xml.NewDecoder(&chart); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 6 { // three ways, latency and goodput
		t.Errorf("the chart has %d lines", lines)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"tenants: 1;":            func(o *Options) { o.Tenants = 1 },
		"devices: -1;":           func(o *Options) { o.Devices = -1 },
		"every: 1µs;":            func(o *Options) { o.Every = time.Microsecond },
		"factor: -5;":            func(o *Options) { o.Factor = -5 },
		"settle: 10s;":           func(o *Options) { o.Settle = 10 * time.Second },
		"duration: 10ms;":        func(o *Options) { o.Duration = 10 * time.Millisecond },
		"rounds: 101;":           func(o *Options) { o.Rounds = 101 },
		"guarantee: 100;":        func(o *Options) { o.Guarantees = []int{100} },
		"guarantee: 0 are given": func(o *Options) { o.Guarantees = []int{} },
		"handlers: none":         func(o *Options) { o.Handlers = []Handler{} },
		"seats: 0;":              func(o *Options) { o.Handlers = []Handler{{}} },
		"the devices would ask 5 times a second, the noisy ones 20010;": func(o *Options) { o.Factor = 20_010 },
	} {
		o := small()
		change(o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestArrivals(t *testing.T) {
	all := arrivals(3, 2, 5, time.Second, time.Second, 4*time.Second)
	if len(all) != 30 || !slices.IsSortedFunc(all, func(a, b arrival) int { return int(a.at - b.at) }) {
		t.Errorf("%d arrivals: %v", len(all), all)
	}
	of := map[int]int{}
	for _, a := range all {
		of[a.tenant]++
		if a.at < time.Second || a.at >= 4*time.Second {
			t.Errorf("%v", a)
		}
	}
	if diff := cmp.Diff(map[int]int{3: 15, 4: 15}, of); diff != "" {
		t.Error(diff)
	}
}

// The work of a service that computes is the same however busy the machine is.
func TestSpinIsWork(t *testing.T) {
	if turns := calibrate(); turns < 10 || turns > 10_000_000 {
		t.Errorf("%d turns in a millisecond", turns)
	}
}
