package redis

import (
	"context"
	_ "embed"
)

//go:embed script.txt
var explanation string

// Migrate makes sure that [Open] works. Redis has no schema, so there is
// nothing else to do, and done says so.
func Migrate(ctx context.Context, url string) (done []string, err error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	return []string{"redis has no schema: nothing to do"}, s.Close()
}

// Script returns what a server's administrator needs to know: the keys that
// Stint uses, and the rights.
func Script() string { return explanation }
