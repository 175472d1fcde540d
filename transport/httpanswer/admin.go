package httpanswer

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Admin tells administrators from others by a bearer token. The zero Admin admits
// everybody, so there must be a token wherever whoever reaches the paths of
// administrators is not known to be one. It is safe for simultaneous use.
type Admin struct{ token []byte } // its SHA-256; nil if there is none

// NewAdmin returns an Admin who has that token; "" is none.
func NewAdmin(token string) Admin {
	if token == "" {
		return Admin{}
	}
	sum := sha256.Sum256([]byte(token))
	return Admin{sum[:]}
}

// Admits reports whether r comes from an administrator. How long it takes says nothing
// about the token.
func (a Admin) Admits(r *http.Request) bool {
	if a.token == nil {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], a.token) == 1 && strings.EqualFold(scheme, "Bearer")
}

// NotAdmin is the detail of the Problem of those who are not admitted.
const NotAdmin = "Authorization: send Bearer and the token that this Stint has for its administrators"

// Challenge sets the field of an answer that says how administrators are told.
func (a Admin) Challenge(h http.Header) { h.Set("WWW-Authenticate", `Bearer realm="stint"`) }

// Refuse answers r, which does not come from an administrator.
func (a Admin) Refuse(w http.ResponseWriter, r *http.Request) {
	a.Challenge(w.Header())
	Problem{Status: http.StatusUnauthorized, Detail: NotAdmin}.Write(w, r)
}
