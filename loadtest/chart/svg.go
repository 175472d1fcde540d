// Package chart draws what a load test has measured as an SVG file that needs
// nothing else: lines over time, one panel below the other, and bars.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// colors tell series apart, for people who see fewer colours too (the palette
// of Okabe and Ito).
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

const style = `text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:18px;font-weight:600}.about{fill:#666}.panel{font-weight:600}.grid{stroke:#e5e5e5}.axis{stroke:#888}.guide{stroke:#888;stroke-dasharray:5 4}.line{fill:none;stroke-linejoin:round}.end{text-anchor:end}.middle{text-anchor:middle}`

// drawing is an SVG under way.
type drawing struct{ bytes.Buffer }

// write writes the drawing, with its frame around it, to w.
func (d *drawing) write(w io.Writer, width, height int, title, about string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", escape(title), style)
	fmt.Fprintf(&b, `<text class="title" x="20" y="30">%s</text>`+"\n", escape(title))
	fmt.Fprintf(&b, `<text class="about" x="20" y="50">%s</text>`+"\n", escape(about))
	b.Write(d.Bytes())
	b.WriteString("</svg>\n")
	_, err := b.WriteTo(w)
	return err
}

func (d *drawing) text(class string, x, y float64, text string) {
	fmt.Fprintf(d, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, number(x), number(y), escape(text))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(d, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, number(x1), number(y1), number(x2), number(y2))
}

func (d *drawing) box(color string, x, y, width, height float64) {
	fmt.Fprintf(d, `<rect fill="%s" x="%s" y="%s" width="%s" height="%s"/>`+"\n", color, number(x), number(y), number(width), number(height))
}

func escape(text string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// number writes v with a tenth of a pixel.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Number writes a measured value for people: three digits that count.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 10_000:
		return strconv.FormatFloat(math.Round(v/100)/10, 'f', -1, 64) + "k"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// Duration writes a span of time for people.
func Duration(d time.Duration) string {
	if d >= 10*time.Second {
		return Number(d.Seconds()) + " s"
	}
	return Number(float64(d)/1e6) + " ms"
}
