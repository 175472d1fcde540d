package chart

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Lines is a chart of panels, one below the other, over the same time.
type Lines struct {
	Title, About string
	// Seconds is how long the time axis is.
	Seconds float64
	// Marks are instants at which something else began.
	Marks  []Mark
	Panels []Panel
}

// Mark is an instant, in seconds, and what begins there.
type Mark struct {
	At   float64
	Name string
}

// Panel is one pair of axes.
type Panel struct {
	Title string
	// Unit is what the vertical axis counts.
	Unit string
	// Log makes the vertical axis logarithmic. Values of it are above 0.
	Log bool
	// Series lie one on the other, the first one at the bottom.
	Series []Series
	// Guides are levels to compare with.
	Guides []Guide
}

// Series is one line.
type Series struct {
	Name   string
	Points []Point
}

// Point is a value at an instant, in seconds.
type Point struct{ At, Value float64 }

// Guide is a level with a name.
type Guide struct {
	Level float64
	Name  string
}

const (
	width       = 960
	left, right = 70.0, 940.0
	head        = 80.0 // of the chart
	panelHeight = 150.0
	panelEvery  = 215.0
)

// Write writes the chart as SVG.
func (c *Lines) Write(w io.Writer) error {
	var d drawing
	top := head
	for _, p := range c.Panels {
		c.panel(&d, p, top+30)
		top += panelEvery
	}
	return d.write(w, width, int(top)+10, c.Title, c.About)
}

// panel draws p with its plot beginning at top.
func (c *Lines) panel(d *drawing, p Panel, top float64) {
	bottom := top + panelHeight
	most := p.most()
	every := step(most, 4)
	most = math.Ceil(1.05*most/every) * every
	x := func(at float64) float64 { return left + (right-left)*at/c.Seconds }
	y := func(v float64) float64 { return bottom - panelHeight*v/most }

	grid := func(v float64) {
		d.line("grid", left, y(v), right, y(v))
		d.text("end", left-8, y(v)+4, Number(v))
	}

	d.text("panel", left, top-12, p.Title+", "+p.Unit)
	p.legend(d, top-12)
	if p.Log {
		least := p.least()
		for most = least; most < p.most(); most *= 10 {
		}
		y = func(v float64) float64 {
			return bottom - panelHeight*math.Log(max(v, least)/least)/math.Log(max(most, 10*least)/least)
		}
		for v := least; v <= most; v *= 10 {
			grid(v)
		}
	} else {
		for v := 0.0; v <= most+every/2; v += every {
			grid(v)
		}
	}
	c.timeAxis(d, x, top, bottom)
	for _, g := range p.Guides {
		d.line("guide", left, y(g.Level), right, y(g.Level))
		d.text("about end", right-4, y(g.Level)-4, g.Name)
	}
	for i, s := range p.Series {
		d.polyline(colors[i%len(colors)], max(1.5, 3.5-2*float64(i)), s.Points, x, y)
	}
}

// most returns the largest value of p, or 1.
func (p *Panel) most() float64 {
	most := 0.0
	for _, s := range p.Series {
		for _, point := range s.Points {
			most = max(most, point.Value)
		}
	}
	for _, g := range p.Guides {
		most = max(most, g.Level)
	}
	if most <= 0 {
		return 1
	}
	return most
}

// least returns the power of 10 at or below the smallest value of p.
func (p *Panel) least() float64 {
	least := math.Inf(1)
	for _, s := range p.Series {
		for _, point := range s.Points {
			least = min(least, point.Value)
		}
	}
	if math.IsInf(least, 1) || least <= 0 {
		return 1
	}
	return math.Pow(10, math.Floor(math.Log10(least)))
}

// legend names the series, from the right to the left.
func (p *Panel) legend(d *drawing, y float64) {
	at := right
	for i := len(p.Series) - 1; i >= 0; i-- {
		name := p.Series[i].Name
		at -= 7 * float64(len(name))
		d.text("", at, y, name)
		d.box(colors[i%len(colors)], at-18, y-6, 13, 4)
		at -= 34
	}
}

func (c *Lines) timeAxis(d *drawing, x func(float64) float64, top, bottom float64) {
	unit, scale := "seconds", 1.0
	if c.Seconds > 180 {
		unit, scale = "minutes", 60
	}
	d.line("axis", left, bottom, right, bottom)
	every := step(c.Seconds/scale, 10) * scale
	for at := 0.0; at <= c.Seconds+every/100; at += every {
		d.line("axis", x(at), bottom, x(at), bottom+4)
		d.text("middle", x(at), bottom+18, Number(at/scale))
	}
	d.text("about middle", (left+right)/2, bottom+34, unit)
	for _, m := range c.Marks {
		d.line("guide", x(m.At), top, x(m.At), bottom)
		d.text("about", x(m.At)+4, top+11, m.Name)
	}
}

// polyline draws a line that can still be seen under a thinner one.
func (d *drawing) polyline(color string, thick float64, points []Point, x, y func(float64) float64) {
	var path strings.Builder
	for i, p := range points {
		if i > 0 {
			path.WriteByte(' ')
		}
		path.WriteString(number(x(p.At)) + "," + number(y(p.Value)))
	}
	fmt.Fprintf(d, `<polyline class="line" stroke="%s" stroke-width="%s" points="%s"/>`+"\n", color, number(thick), path.String())
}

// step returns a round distance that divides most into about n parts.
func step(most, n float64) float64 {
	rough := most / n
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, nice := range []float64{1, 2, 2.5, 5} {
		if nice*power >= rough {
			return nice * power
		}
	}
	return 10 * power
}
