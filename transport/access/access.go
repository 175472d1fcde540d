// Package access says who may use the paths under /admin/, and how far: by bearer
// tokens, of which only hashes are known here, and by the names of client
// certificates that the listener has verified.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Token is a bearer token that is let in.
type Token struct {
	// Name is whose it is, for the log and the history of changes.
	Name string
	// Hash is the SHA-256 of the token, which must be too long to be guessed.
	Hash [sha256.Size]byte
	// Write: its owner may change things. Otherwise the token is for looking only.
	Write bool
}

// Certificate is a client's that is let in if it comes without a token.
type Certificate struct {
	// Name is one of the certificate's: its common name, or a DNS name, a mail address or
	// a URI among its alternative names.
	Name  string
	Write bool // as that of a Token
}

// Options configure a Guard. The zero value lets in everybody.
type Options struct {
	Tokens       []Token
	Certificates []Certificate
	// Closed keeps everybody out where there are neither Tokens nor Certificates: others
	// than the operator can reach this listener.
	Closed bool
	// Logger is told who was refused. Defaults to slog.Default().
	Logger *slog.Logger
}

// Guard lets requests in. It is safe for simultaneous use, and a nil Guard lets in
// everybody.
type Guard struct {
	opts   Options
	second atomic.Int64 // of the last refusal that was logged
	silent atomic.Int64 // how many were not, since then
	cross  http.CrossOriginProtection
}

// New returns a Guard. A nil o is the zero Options.
func New(o *Options) *Guard {
	g := &Guard{}
	if o != nil {
		g.opts = *o
	}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.Default()
	}
	return g
}

// Nobody is who sends a request that has no token and no certificate, where none is
// needed.
const Nobody = "anybody"

// Refusal is why a request is not let in. Detail has nothing of what was sent.
type Refusal struct {
	Status int // 401 or 403
	Detail string
}

// Admit returns who sends r, or why it is not let in, in which case it has set the
// headers that belong to such an answer. GET and HEAD look, all other methods change
// things. How long it takes says nothing about any token.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) (who string, refused *Refusal) {
	if g == nil {
		return Nobody, nil
	}
	who, refused = g.admit(r)
	if refused != nil {
		if refused.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="stint"`)
		}
		g.tell(r, who, refused)
	}
	return who, refused
}

func (g *Guard) admit(r *http.Request) (who string, refused *Refusal) {
	open := len(g.opts.Tokens) == 0 && len(g.opts.Certificates) == 0
	header := r.Header.Get("Authorization")
	var write bool
	switch {
	case open && g.opts.Closed:
		return "", &Refusal{http.StatusForbidden, "This Stint can be reached by others than its operator, and its configuration has neither admin.token, nor admin.tokens, nor admin.certificates: nobody is let in here."}
	case open && !isLocal(r.Host):
		return "", &Refusal{http.StatusForbidden, "Host: without a token, call this Stint localhost or by its address: what a browser takes for another site is not let in."}
	case open:
		who, write = Nobody, true
		if leaf := certificateOf(r); leaf != nil && leaf.Subject.CommonName != "" {
			who = strings.ToValidUTF8(leaf.Subject.CommonName[:min(len(leaf.Subject.CommonName), 64)], "")
		}
	case header != "":
		token, ok := g.token(header)
		if !ok {
			return "", &Refusal{http.StatusUnauthorized, "Authorization: this is no token that this Stint knows; send Bearer and one of its admin tokens"}
		}
		who, write = token.Name, token.Write
	default:
		certificate, ok := g.certificate(r)
		if !ok {
			return "", &Refusal{http.StatusUnauthorized, "Authorization: send Bearer and the token that this Stint has for its administrators"}
		}
		who, write = certificate.Name, certificate.Write
	}
	looks := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case looks:
		return who, nil
	case !write:
		return who, &Refusal{http.StatusForbidden, "Authorization: this token is for reading; one with the right to write is needed"}
	case g.cross.Check(r) != nil:
		return who, &Refusal{http.StatusForbidden, "Origin: a page of another site is not let in"}
	}
	return who, nil
}

// token returns the one that a header has. All are compared, whichever it is.
func (g *Guard) token(header string) (found Token, ok bool) {
	scheme, sent, _ := strings.Cut(header, " ")
	hash := sha256.Sum256([]byte(sent))
	for _, t := range g.opts.Tokens {
		if subtle.ConstantTimeCompare(hash[:], t.Hash[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok && strings.EqualFold(scheme, "Bearer")
}

// certificate returns the first that the client's has the name of.
func (g *Guard) certificate(r *http.Request) (Certificate, bool) {
	leaf := certificateOf(r)
	if leaf == nil {
		return Certificate{}, false
	}
	names := slices.Concat([]string{leaf.Subject.CommonName}, leaf.DNSNames, leaf.EmailAddresses)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	i := slices.IndexFunc(g.opts.Certificates, func(c Certificate) bool { return slices.Contains(names, c.Name) })
	if i < 0 {
		return Certificate{}, false
	}
	return g.opts.Certificates[i], true
}

// certificateOf returns the client's, nil if the listener has verified none.
func certificateOf(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// isLocal reports whether a Host is none that a page of another site could have had
// resolved to this machine.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil
}

// tell logs a refusal, once a second at most.
func (g *Guard) tell(r *http.Request, who string, refused *Refusal) {
	now := time.Now().Unix()
	if last := g.second.Load(); last == now || !g.second.CompareAndSwap(last, now) {
		g.silent.Add(1)
		return
	}
	path := r.URL.EscapedPath()
	g.opts.Logger.WarnContext(r.Context(), "admin request refused", "status", refused.Status, "who", who,
		"peer", r.RemoteAddr, "method", r.Method, "path", path[:min(len(path), 256)], "reason", refused.Detail, "not_shown", g.silent.Swap(0))
}
