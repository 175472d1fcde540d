package identity

import (
	"net/http"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/rules"
)

// WithCertificate returns an Identifier that finds out what next does and, as
// the attribute called name, who the certificate of the connection's other end
// was made out to: its first URI (a SPIFFE ID), or else its first DNS name, or
// else its common name. Only a certificate that the server has verified counts.
// A request without one has what next says of name.
func WithCertificate(next gate.Identifier, name string) gate.Identifier {
	return &certificates{next, name}
}

type certificates struct {
	next gate.Identifier
	name string
}

func (c *certificates) Identify(r *http.Request) rules.Request {
	return &certified{c.next.Identify(r), c.name, r}
}

// certified is a request that may come with a certificate.
type certified struct {
	rules.Request
	name string
	http *http.Request
}

func (c *certified) Attribute(name string) (string, bool) {
	if name == c.name {
		if text := holder(c.http); text != "" && len(text) <= maxValue {
			return text, true
		}
	}
	return c.Request.Attribute(name)
}

// Release gives the request back to whoever made it.
func (c *certified) Release() {
	if r, ok := c.Request.(interface{ Release() }); ok {
		r.Release()
	}
}

// holder returns who the verified certificate of r's connection was made out
// to, or "".
func holder(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return ""
	}
	switch leaf := r.TLS.VerifiedChains[0][0]; {
	case len(leaf.URIs) > 0:
		return leaf.URIs[0].String()
	case len(leaf.DNSNames) > 0:
		return leaf.DNSNames[0]
	default:
		return leaf.Subject.CommonName
	}
}
