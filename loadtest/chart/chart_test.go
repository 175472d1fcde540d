package chart

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"
)

// drawn checks that an SVG is well-formed and has all its numbers.
func drawn(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for d := xml.NewDecoder(&out); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("a number is not one:\n%s", text)
	}
	return text
}

func TestLines(t *testing.T) {
	c := Lines{
		Title: `<script>"&`, About: "a & b", Seconds: 600,
		Marks: []Mark{{120, "faster"}},
		Panels: []Panel{
			{Title: "Requests", Unit: "per second", Series: []Series{{"all", []Point{{0, 5}, {600, 100}}}, {"denied", []Point{{300, 50}}}}},
			{Title: "Grants", Unit: "per second", Series: []Series{{"granted", nil}}, Guides: []Guide{{0.5, "the limit"}}},
		},
	}
	text := drawn(t, c.Write)
	for _, want := range []string{
		"&lt;script&gt;", "a &amp; b", "Requests, per second", "Grants, per second", ">all<", ">denied<", ">granted<", ">the limit<", ">faster<", ">minutes<",
		`points="70,254 940,140"`, // 5 and 100 of 125 per second, from the first minute to the last
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "<polyline"); n != 3 {
		t.Errorf("%d lines, want 3", n)
	}
}

func TestBars(t *testing.T) {
	c := Bars{
		Title: "Ways", About: "side by side", Columns: []string{"per second", "deadlocks"},
		Rows: []Row{
			{Name: "one key", Cells: []Cell{{{"a", 100, ""}, {"b", 50, "half"}}, {{"a", 0, ""}, {"b", 0, ""}}}},
			{Name: "nothing"},
		},
	}
	text := drawn(t, c.Write)
	for _, want := range []string{">Ways<", ">per second<", ">deadlocks<", ">one key<", ">a<", ">b<", ">100<", ">half<", ">0<", ">nothing<"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0004: "0", 0.0567: "0.057", 1.5: "1.5", 12.34: "12.3", 99.96: "100", 123.4: "123", 9999: "9999", 12345: "12.3k", -2: "-2"} {
		if got := Number(v); got != want {
			t.Errorf("%v is written as %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0 ms", 1234 * time.Microsecond: "1.234 ms", 900 * time.Millisecond: "900 ms", 12340 * time.Millisecond: "12.3 s"} {
		if got := Duration(d); got != want {
			t.Errorf("%v is written as %s, want %s", d, got, want)
		}
	}
}

func TestStep(t *testing.T) {
	for most, want := range map[float64]float64{1: 0.25, 4: 1, 7: 2, 100: 25, 200: 50, 1999: 500, 0.3: 0.1} {
		if got := step(most, 4); got < want*0.999 || got > want*1.001 {
			t.Errorf("%v in 4 parts: %v, want %v", most, got, want)
		}
	}
}

// On a logarithmic axis equal ratios are equal distances.
func TestLogarithmicAxis(t *testing.T) {
	var b strings.Builder
	c := Lines{Title: "x", Seconds: 2, Panels: []Panel{{
		Title: "x", Unit: "ms", Log: true,
		Series: []Series{{Name: "a", Points: []Point{{0, 20}, {1, 200}, {2, 2000}}}},
	}}}
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	// 10 to 10000 on 150 pixels: 50 for each power of 10.
	for _, want := range []string{`points="70,244.9 505,194.9 940,144.9"`, ">10<", ">100<", ">1000<", ">10k<"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the chart lacks %s:\n%s", want, b.String())
		}
	}
}
