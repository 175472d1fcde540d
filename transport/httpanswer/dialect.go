package httpanswer

import (
	"fmt"
	"strings"
)

// Dialect is the names and the shape that rate limit fields have.
type Dialect uint8

const (
	// Draft10 is RateLimit-Policy and RateLimit as structured fields, one item
	// a policy: draft-ietf-httpapi-ratelimit-headers-10.
	Draft10 Dialect = iota
	// Draft03 is X-RateLimit-Limit, -Remaining and -Reset (in seconds) of the
	// policy nearest to exhaustion.
	Draft03
	// Legacy is Draft03 without the X-.
	Legacy
	// None is no fields at all.
	None
)

var dialects = [...]string{Draft10: "draft10", Draft03: "draft03", Legacy: "legacy", None: "none"}

// ParseDialect returns the Dialect called name; "" is Draft10.
func ParseDialect(name string) (Dialect, error) {
	if name == "" {
		return Draft10, nil
	}
	for d, n := range dialects {
		if n == name {
			return Dialect(d), nil
		}
	}
	return Draft10, fmt.Errorf("%q is not a dialect of rate limit headers; %s are allowed", name, strings.Join(dialects[:], ", "))
}

// String returns the name that ParseDialect reads.
func (d Dialect) String() string {
	if int(d) < len(dialects) {
		return dialects[d]
	}
	return fmt.Sprintf("Dialect(%d)", d)
}
