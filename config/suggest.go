package config

// didYouMean returns the part of a message that proposes word, or "" if that is empty.
func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return " (did you mean " + word + "?)"
}
