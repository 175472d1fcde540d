package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Admin is who may change what is in force.
type Admin struct {
	Token        string             `yaml:"token" doc:"env:NAME, the environment variable with a bearer token that has all rights to the paths under /admin/. If listen.api is not a loopback address, this, tokens or certificates are needed as soon as slots or rules_from are not off, and nobody is let in without."`
	Tokens       []AdminToken       `yaml:"tokens" doc:"Further bearer tokens, as stint token makes them."`
	Certificates []AdminCertificate `yaml:"certificates" doc:"Whose client certificates are let in without a token. They are verified by tls.api.client_ca_file."`
}

// AdminToken is a bearer token, of which the file has no more than the hash.
type AdminToken struct {
	Name   string    `yaml:"name" required:"true" doc:"Whose it is, for the history of changes and the log: 1 to 64 bytes."`
	Hash   TokenHash `yaml:"hash" required:"true" doc:"sha256: and 64 hexadecimal digits."`
	Rights string    `yaml:"rights" required:"true" enum:"read,write" doc:"read: to look. write: to change things, too."`
}

// AdminCertificate names client certificates.
type AdminCertificate struct {
	Name   string `yaml:"name" required:"true" doc:"The certificate's common name, or a DNS name, mail address or URI of its alternative names."`
	Rights string `yaml:"rights" required:"true" enum:"read,write" doc:"read: to look. write: to change things, too."`
}

// TokenHash is the SHA-256 of a token. Tokens are too long to be guessed, so they
// need no salt and no slow hash.
type TokenHash [sha256.Size]byte

const tokenHashPrefix = "sha256:"

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

func (h TokenHash) String() string { return tokenHashPrefix + hex.EncodeToString(h[:]) }

// UnmarshalText implements encoding.TextUnmarshaler. The error has nothing of text:
// it may be the token itself.
func (h *TokenHash) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), tokenHashPrefix)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != len(h) {
		return errors.New("is not the hash of a token; sha256: and 64 hexadecimal digits are allowed, which stint token prints beside a token")
	}
	copy(h[:], sum)
	return nil
}

// maxAdmins is the most tokens, and the most certificates, that are let in.
const maxAdmins = 100

// isClosed reports whether nobody may use the admin paths: there is no one to let in.
func (a *Admin) isClosed() bool {
	return a.Token == "" && len(a.Tokens) == 0 && len(a.Certificates) == 0
}

// AdminClosed reports whether others than the operator can reach the admin paths, and
// the file does not say whom to let in.
func (f *File) AdminClosed() bool { return f.Admin.isClosed() && !onLoopback(f.APIAddress()) }

// checkAdmin checks who may use the admin paths.
func (l *loading) checkAdmin() {
	f := l.file
	l.check("admin.token", checkToken(f))
	if f.Admin.isClosed() {
		return
	}
	if !onLoopback(f.APIAddress()) && f.TLS.API == (ListenerTLS{}) {
		l.warn("admin", "listen.api is %s, and callers send their tokens there in the clear; give tls.api a certificate, or have a proxy in front that has one", quote(f.Listen.API))
	}
	hashes, names := map[TokenHash]bool{}, map[string]bool{tokenName: true}
	l.check("admin.tokens", checkNumber(len(f.Admin.Tokens), 0, maxAdmins))
	for i, t := range f.Admin.Tokens {
		at := fmt.Sprintf("admin.tokens[%d]", i)
		l.check(at+".name", checkAdminName(t.Name))
		if t.Hash != (TokenHash{}) && hashes[t.Hash] {
			l.check(at+".hash", errors.New("another token has the same hash; leave one out"))
		}
		if names[t.Name] {
			l.check(at+".name", fmt.Errorf("%s is the name of another token; choose another one, so that the history can tell them apart", quote(t.Name)))
		}
		hashes[t.Hash], names[t.Name] = true, true
	}
	l.check("admin.certificates", checkNumber(len(f.Admin.Certificates), 0, maxAdmins))
	if len(f.Admin.Certificates) > 0 && f.TLS.API.ClientCAFile == "" {
		l.check("admin.certificates", errors.New("nobody verifies them; name their authorities in tls.api.client_ca_file"))
	}
	for i, c := range f.Admin.Certificates {
		l.check(fmt.Sprintf("admin.certificates[%d].name", i), checkAdminName(c.Name))
	}
}

// tokenName is who the owner of admin.token is.
const tokenName = "admin"

// AllTokens returns the tokens of a: that of the environment is called admin.
func (a *Admin) AllTokens() []AdminToken {
	all := a.Tokens
	if a.Token != "" {
		all = append([]AdminToken{{Name: tokenName, Hash: HashToken(a.Token), Rights: "write"}}, all...)
	}
	return all
}

func checkAdminName(name string) error {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%s is not a name; 1 to 64 bytes are allowed", quote(name))
	}
	return nil
}
