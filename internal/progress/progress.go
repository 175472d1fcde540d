// Package progress shows on a terminal, or in a log, how far something that takes
// long has come.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Bar shows progress in the last line of a terminal. Elsewhere, such as in the log
// of a nightly job, it writes a line every ten seconds. It is for one goroutine at a
// time.
type Bar struct {
	w          io.Writer
	name, unit string
	terminal   bool
	shown      bool
	next       time.Duration // when the next line is due, if not on a terminal
}

const lineEvery = 10 * time.Second

// New returns a bar on w. Its lines begin with a name, such as "replay", and count
// in a unit, such as "lines".
func New(w io.Writer, name, unit string) *Bar {
	return &Bar{w: w, name: name, unit: unit, terminal: IsTerminal(w), next: lineEvery}
}

// IsTerminal reports whether w is one.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Show draws the bar anew: so many units were done in a time, which is that part
// of all, from 0 to 1. A part of 0 is one that nobody knows.
func (b *Bar) Show(units int64, part float64, took time.Duration) {
	part = min(part, 1)
	switch {
	case b.terminal:
		b.shown = true
		fmt.Fprint(b.w, eraseLine+bar(part)+b.figures(units, part, took))
	case took >= b.next:
		b.next = took + lineEvery
		fmt.Fprintln(b.w, b.name+": "+b.figures(units, part, took))
	}
}

// Clear removes the bar.
func (b *Bar) Clear() {
	if b.shown {
		fmt.Fprint(b.w, eraseLine)
		b.shown = false
	}
}

const (
	eraseLine = "\r\x1b[K"
	barWidth  = 30
)

// bar is what stands before the figures: [####......], or nothing if nobody
// knows how much there is to do.
func bar(part float64) string {
	if part == 0 {
		return ""
	}
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full))
}

// figures are such as: 40%  312000 lines/s  12s left.
func (b *Bar) figures(units int64, part float64, took time.Duration) string {
	speed := fmt.Sprintf("%.0f %s/s", float64(units)/max(took.Seconds(), 1e-9), b.unit)
	if part == 0 {
		return fmt.Sprintf("%d %s  %s", units, b.unit, speed)
	}
	left := time.Duration(float64(took) * (1 - part) / part).Round(time.Second)
	return fmt.Sprintf("%3.0f%%  %s  %v left", 100*part, speed, left)
}
