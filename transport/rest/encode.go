package rest

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/stint-dev/stint/gate"
)

// appendAnswer appends what out says as package json writes an Answer, and a line
// break.
func appendAnswer(b []byte, out *gate.Outcome) []byte {
	b = strconv.AppendBool(append(b, `{"allowed":`...), out.Allowed)
	b = appendNumber(b, `,"status":`, int64(out.Status))
	b = appendNumber(b, `,"retryAfterMs":`, milliseconds(out.RetryAfter))
	b = append(b, `,"decisions":[`...)
	for i := range out.Decisions {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDecision(b, &out.Decisions[i])
	}
	return append(b, "]}\n"...)
}

func appendDecision(b []byte, d *gate.Decision) []byte {
	b = appendNumber(b, `{"descriptor":`, int64(d.Request))
	b = appendText(append(b, `,"rule":`...), d.Rule.Name)
	b = appendText(append(b, `,"policy":`...), d.Policy)
	b = strconv.AppendBool(append(b, `,"allowed":`...), d.Allowed)
	b = strconv.AppendBool(append(b, `,"shadow":`...), d.Rule.Shadow)
	b = appendNumber(b, `,"limit":`, d.Limit)
	b = appendNumber(b, `,"remaining":`, d.Remaining)
	b = appendNumber(b, `,"retryAfterMs":`, milliseconds(d.RetryAfter))
	b = appendNumber(b, `,"resetAfterMs":`, milliseconds(d.ResetAfter))
	b = strconv.AppendBool(append(b, `,"degraded":`...), d.Degraded)
	return append(b, '}')
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil { // a string always encodes
				panic(err)
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	n := d.Milliseconds()
	if d%time.Millisecond > 0 {
		n++
	}
	return n
}
