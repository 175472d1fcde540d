package config

import "regexp"

var (
	// secretParameter is a parameter of a URL that is a secret.
	secretParameter = regexp.MustCompile(`(?i)((?:password|passwd|pwd|secret|token)=)[^&\s"]+`)
	// password is that of a URL's user. One that is not written as it should
	// be may have any sign in it, so this goes on to the last @ of the line.
	password = regexp.MustCompile(`(://[^\s:/@]*:)[^\n]*@`)
)

// Redact returns text without the passwords of the URLs in it. It is
// the last defence of messages whose text is somebody else's, and rather leaves
// out too much.
func Redact(text string) string {
	text = secretParameter.ReplaceAllString(text, "${1}...")
	return password.ReplaceAllString(text, "${1}...@")
}
