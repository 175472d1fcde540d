package rules

import (
	"fmt"
	"strings"
)

// A Problem is one thing that is wrong with a Spec.
type Problem struct {
	// Path leads to the field, such as rules[2].limits[0].window.
	Path string
	// Message names the value and what is allowed.
	Message string
	// Warning: the Spec works as it is, and probably not as it was meant.
	Warning bool
}

func (p Problem) Error() string { return p.Path + ": " + p.Message }

// didYouMean returns what to append to a message about an unknown word if one
// of allowed was probably meant.
func didYouMean(word string, allowed []string) string {
	best, least := "", 3
	for _, a := range allowed {
		if n := edits(strings.ToLower(word), strings.ToLower(a), least); n < least && n < len(a) {
			best, least = a, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// edits returns the Levenshtein distance of a and b, or most if it is at least
// that.
func edits(a, b string, most int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], most)
}

// enumerate writes words as "a, b and c", and only the first ten of many.
func enumerate(words []string) string {
	const most = 10
	if len(words) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
	}
	text := strings.Join(words, ", ")
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " and " + text[i+2:]
	}
	return text
}
