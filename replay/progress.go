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

// ProgressBar shows progress in the last line of a terminal, and nothing
// elsewhere.
type ProgressBar struct {
	w     io.Writer // nil if not a terminal
	shown bool
}

// NewProgressBar returns a bar on w.
func NewProgressBar(w io.Writer) *ProgressBar {
	if !isTerminal(w) {
		w = nil
	}
	return &ProgressBar{w: w}
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
	if b.w == nil {
		return
	}
	b.shown = true
	fmt.Fprint(b.w, eraseLine+bar(p))
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

// bar is what is shown: [####......]  40%  312000 lines/s  12s left.
func bar(p Progress) string {
	speed := fmt.Sprintf("%.0f lines/s", float64(p.Lines)/max(p.Took.Seconds(), 1e-9))
	if p.Total == 0 || p.Bytes == 0 {
		return fmt.Sprintf("%d lines  %s", p.Lines, speed)
	}
	done := min(1, float64(p.Bytes)/float64(p.Total))
	full := int(done * barWidth)
	left := time.Duration(float64(p.Took) * (1 - done) / done).Round(time.Second)
	return fmt.Sprintf("[%s%s] %3.0f%%  %s  %v left",
		strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*done, speed, left)
}
