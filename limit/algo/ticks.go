package algo

import "fmt"

// Ticks counts microseconds. As an instant it is microseconds since the Unix
// epoch, which a float64 (and so a Lua number) holds exactly until the year
// 2255; as a span it reaches 292,000 years.
type Ticks int64

// Spans of time in Ticks.
const (
	Microsecond Ticks = 1
	Millisecond       = 1000 * Microsecond
	Second            = 1000 * Millisecond
	Minute            = 60 * Second
	Hour              = 60 * Minute
	Day               = 24 * Hour
	Year              = 365 * Day
)

// String writes t as a span, in the units of a rules file: 1m30s, 365d, 250us.
func (t Ticks) String() string {
	if t == 0 {
		return "0s"
	}
	text, left := "", uint64(t)
	if t < 0 {
		text, left = "-", -left
	}
	for _, unit := range [...]struct {
		name string
		span Ticks
	}{{"d", Day}, {"h", Hour}, {"m", Minute}, {"s", Second}, {"ms", Millisecond}, {"us", Microsecond}} {
		if n := left / uint64(unit.span); n > 0 {
			text += fmt.Sprintf("%d%s", n, unit.name)
			left %= uint64(unit.span)
		}
	}
	return text
}
