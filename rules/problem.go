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
	// Conflict: what is wrong is so only because of another rule.
	Conflict bool
}

func (p Problem) Error() string { return p.Path + ": " + p.Message }

// didYouMean returns what to append to a message about an unknown word if one
// of allowed was probably meant.
func didYouMean(word string, allowed []string) string {
	if best := Closest(word, allowed); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// Closest returns the word of allowed that is the fewest edits away from word,
// or "" if none is near enough to be a slip of the fingers. It takes - for _.
func Closest(word string, allowed []string) string {
	if len(word) > 64 {
		return ""
	}
	word = strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	best, least := "", 3
	for _, a := range allowed {
		if n := edits(word, a); n < least && 3*n <= max(len(word), len(a)) {
			best, least = a, n
		}
	}
	return best
}

// edits counts the letters to insert, delete, replace or swap with their
// neighbour to make b of a: the optimal string alignment distance.
func edits(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
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
