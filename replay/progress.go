package replay

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// reporter calls Options.Progress now and then.
type reporter struct {
	call        func(Progress)
	began, last time.Time
}

const progressEvery = 100 * time.Millisecond

func newReporter(call func(Progress)) *reporter {
	now := time.Now()
	return &reporter{call: call, began: now, last: now}
}

func (r *reporter) took() time.Duration { return time.Since(r.began) }

func (r *reporter) tell(lines int64, in *input) {
	if r.call == nil {
		return
	}
	now := time.Now()
	if now.Sub(r.last) < progressEvery {
		return
	}
	r.last = now
	r.call(Progress{Lines: lines, Bytes: in.read, Total: in.total, Took: now.Sub(r.began)})
}

// ProgressBar shows progress in the last line of a terminal. Elsewhere, such as
// in the log of a nightly job, it writes a line every ten seconds.
type ProgressBar struct {
	w        io.Writer
	terminal bool
	shown    bool
	next     time.Duration // when the next line is due, if not on a terminal
}

const lineEvery = 10 * time.Second

// NewProgressBar returns a bar on w.
func NewProgressBar(w io.Writer) *ProgressBar {
	return &ProgressBar{w: w, terminal: isTerminal(w), next: lineEvery}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Show draws the bar anew. It can be Options.Progress.
func (b *ProgressBar) Show(p Progress) {
	switch {
	case b.terminal:
		b.shown = true
		fmt.Fprint(b.w, eraseLine+bar(p)+figures(p))
	case p.Took >= b.next:
		b.next = p.Took + lineEvery
		fmt.Fprintln(b.w, "replay: "+figures(p))
	}
}

// Clear removes the bar.
func (b *ProgressBar) Clear() {
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
// knows how much there is to read.
func bar(p Progress) string {
	done, known := p.done()
	if !known {
		return ""
	}
	full := int(done * barWidth)
	return fmt.Sprintf("[%s%s] ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full))
}

// figures are such as: 40%  312000 lines/s  12s left.
func figures(p Progress) string {
	speed := fmt.Sprintf("%.0f lines/s", float64(p.Lines)/max(p.Took.Seconds(), 1e-9))
	done, known := p.done()
	if !known {
		return fmt.Sprintf("%d lines  %s", p.Lines, speed)
	}
	left := time.Duration(float64(p.Took) * (1 - done) / done).Round(time.Second)
	return fmt.Sprintf("%3.0f%%  %s  %v left", 100*done, speed, left)
}

// done returns the part of the logs that has been read, if it is known.
func (p Progress) done() (part float64, known bool) {
	if p.Total == 0 || p.Bytes == 0 {
		return 0, false
	}
	return min(1, float64(p.Bytes)/float64(p.Total)), true
}
