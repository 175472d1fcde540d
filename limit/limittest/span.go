package limittest

import (
	"fmt"
	"math"
	"strings"

	"github.com/stint-dev/stint/limit/algo"
)

// units of a span, from long to short: a span names each at most once, in this order.
var units = []struct {
	name string
	span algo.Ticks
}{{"d", algo.Day}, {"h", algo.Hour}, {"m", algo.Minute}, {"s", algo.Second}, {"ms", algo.Millisecond}, {"us", algo.Microsecond}}

// parseSpan reads what algo.Ticks.String writes, such as 1m30s.
func parseSpan(text string) (algo.Ticks, error) {
	var span algo.Ticks
	rest, next := text, 0
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n := int64(0)
		for _, d := range rest[:digits] {
			if n > (math.MaxInt64-9)/10 {
				return 0, fmt.Errorf("%q is too long", text)
			}
			n = 10*n + int64(d-'0')
		}
		rest = rest[digits:]
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "dhmsu"))]
		rest = rest[len(name):]
		for next < len(units) && units[next].name != name {
			next++
		}
		if digits == 0 || next == len(units) {
			return 0, fmt.Errorf("%q is no span of time, such as 1m30s; units are d, h, m, s, ms and us, in this order", text)
		}
		if n > int64(math.MaxInt64-span)/int64(units[next].span) {
			return 0, fmt.Errorf("%q is too long", text)
		}
		span += algo.Ticks(n) * units[next].span
		next++
	}
	if text == "" {
		return 0, fmt.Errorf("a span of time is missing, such as 1m30s")
	}
	return span, nil
}
