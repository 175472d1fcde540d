package config

import "strings"

// didYouMean returns the part of a message that proposes word, or "" if that is empty.
func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return " (did you mean " + word + "?)"
}

// closest returns the word of allowed that is the fewest edits away from word,
// or "" if none is near enough to be a slip of the fingers. It takes - for _.
func closest(word string, allowed []string) string {
	if len(word) > 64 {
		return ""
	}
	word = strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	best, least := "", 3
	for _, a := range allowed {
		if n := edits(word, a); n < least && 3*n <= len(a) {
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
