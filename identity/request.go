package identity

import (
	"net/http"
	"strings"

	"github.com/stint-dev/stint/rules"
)

// maxValue bounds an attribute, in bytes. A longer one is absent.
const maxValue = 8 << 10

// Request is one HTTP request as rules look at it. It is for one goroutine.
type Request struct {
	id     *Identifier
	http   *http.Request
	values []value // by attribute
	tokens []token // by verifier
	peer   peer
	form   value
}

var _ rules.Request = (*Request)(nil)

// value is an attribute, or a form. Empty text is an absent one.
type value struct {
	text  string
	known bool
	from  int // the place of the source that yields an attribute
}

// token is what a verifier said. No claims are those of a token that is
// missing or refused.
type token struct {
	claims  map[string]any
	refused error // why, if it was
	known   bool
}

// peer is who holds the other end of the connection.
type peer struct {
	node    node
	trusted bool
	known   bool
}

// source yields the value of an attribute, or "".
type source interface {
	value(q *Request) string
	// name is what people call it.
	name() string
	// missed says why value is "".
	missed(q *Request) string
	// secret says that value is what its sender proves itself by.
	secret() bool
}

func (id *Identifier) newRequest() any {
	return &Request{
		id:     id,
		values: make([]value, len(id.sources)),
		tokens: make([]token, len(id.verifiers)),
	}
}

// Release gives q back, to be used for another request. q must not be used
// any more; what it returned stays valid. Calling Release is optional.
func (q *Request) Release() {
	clear(q.values)
	clear(q.tokens)
	q.peer = peer{}
	q.form = value{}
	q.http = nil
	q.id.requests.Put(q)
}

// Method returns the HTTP method.
func (q *Request) Method() string { return q.http.Method }

// Host returns the host as the caller named it, port and all.
func (q *Request) Host() string { return q.http.Host }

// Path returns the path as the caller sent it, percent-encoding and all.
func (q *Request) Path() string { return q.http.URL.EscapedPath() }

// Header returns the first value of a header, or "".
func (q *Request) Header(name string) string {
	if strings.EqualFold(name, "Host") {
		return q.http.Host // net/http takes it out of the headers.
	}
	return q.http.Header.Get(name)
}

// Attribute returns an attribute of the caller, such as user or ip. ok is
// false if no source of the attribute yields a value.
func (q *Request) Attribute(name string) (text string, ok bool) {
	i, ok := q.id.index[name]
	if !ok {
		return "", false
	}
	v := &q.values[i]
	if !v.known {
		*v = q.first(q.id.sources[i])
	}
	return v.text, v.text != ""
}

// first returns what the first source yields that yields anything.
func (q *Request) first(sources []source) value {
	for i, s := range sources {
		if text := s.value(q); text != "" && len(text) <= maxValue {
			return value{text, true, i}
		}
	}
	return value{known: true, from: len(sources)}
}

// claims returns those of the request's token, as verifier i sees it.
func (q *Request) claims(i int) map[string]any { return q.token(i).claims }

// token returns what verifier i says of the request's token.
func (q *Request) token(i int) *token {
	t := &q.tokens[i]
	if !t.known {
		t.claims, t.refused = q.id.verifiers[i].claims(q.http)
		t.known = true
	}
	return t
}

// believes reports whether a claim counts that any caller can make up.
func (q *Request) believes(unverified bool) bool { return unverified || q.connection().trusted }

// connection returns the peer of the request.
func (q *Request) connection() *peer {
	if !q.peer.known {
		n, _ := parseNode(q.http.RemoteAddr)
		q.peer = peer{node: n, trusted: q.id.network.trusts(n.addr), known: true}
	}
	return &q.peer
}
