package identity

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/rules"
)

// maxForm is the most bytes of a body that is read as a form.
const maxForm = 64 << 10

// field is a parameter of an urlencoded form, and a claim. It is absent wherever the service
// behind could take another value for it than the rules do: if it comes twice,
// or in the query string, too.
type field struct {
	key        string
	unverified bool
}

func (s field) name() string { return "form field " + s.key }
func (s field) secret() bool { return rules.IsCredential(s.key) }

func (s field) missed(q *Request) string {
	if !q.believes(s.unverified) {
		return unbelieved(q)
	}
	return absent
}

func (s field) value(q *Request) string {
	if !q.believes(s.unverified) {
		return ""
	}
	text, times, ok := formField(q.body(), s.key)
	if !ok || times != 1 {
		return ""
	}
	if _, times, ok = formField(q.http.URL.RawQuery, s.key); !ok || times > 0 {
		return ""
	}
	return text
}

// body returns the form that the request carries, as it was sent, or "" if it
// has none.
func (q *Request) body() string {
	if !q.form.known {
		q.form = value{text: readForm(q.http), known: true}
	}
	return q.form.text
}

// readForm reads the body of r if that is a form, and puts it back for whoever
// comes next. A body that is larger than maxForm, or cannot be read to its
// end, has no form. A caller that waits for 100 Continue is told to go on.
func readForm(r *http.Request) string {
	if r.Body == nil || r.Method != http.MethodPost || r.ContentLength == 0 || r.ContentLength > maxForm || !isForm(r.Header) {
		return ""
	}
	var read bytes.Buffer
	_, err := read.ReadFrom(io.LimitReader(r.Body, maxForm+1))
	after := io.Reader(r.Body)
	if err != nil {
		after = failing{err}
	}
	r.Body = restored{io.MultiReader(bytes.NewReader(read.Bytes()), after), r.Body}
	if err != nil || read.Len() > maxForm {
		return ""
	}
	return read.String()
}

// restored is a body that has been read, from its beginning.
type restored struct {
	io.Reader
	io.Closer
}

// failing is the rest of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// isForm reports whether a body is an urlencoded form that everybody reads in
// the same way: not compressed, and in a charset in which ASCII is ASCII.
func isForm(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 || len(h["Content-Encoding"]) > 0 {
		return false
	}
	mediaType, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || mediaType != "application/x-www-form-urlencoded" {
		return false
	}
	switch strings.ToLower(parameters["charset"]) {
	case "", "utf-8", "us-ascii", "iso-8859-1":
		return true
	}
	return false
}

// formField looks for a parameter of a form or a query string, in any case. It
// returns its last value and how often it is there, or false if what is
// written can be read in more than one way.
func formField(form, name string) (text string, times int, ok bool) {
	if strings.Contains(form, ";") {
		return "", 0, false // to some, a ; ends a parameter
	}
	for pair := range strings.SplitSeq(form, "&") {
		key, val, _ := strings.Cut(pair, "=")
		key, keyErr := url.QueryUnescape(key)
		val, valErr := url.QueryUnescape(val)
		if keyErr != nil || valErr != nil {
			return "", 0, false
		}
		if strings.EqualFold(key, name) {
			text, times = val, times+1
		}
	}
	return text, times, true
}
