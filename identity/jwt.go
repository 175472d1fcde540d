package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

// maxToken bounds a token, in bytes.
const maxToken = 16 << 10

// Why a token is refused. The words of the library are not used: they may
// quote the token.
var (
	errTooLong     = errors.New("longer than 16 KiB")
	errMalformed   = errors.New("malformed")
	errAlgorithm   = errors.New("of an algorithm that is not accepted")
	errUnknownKey  = errors.New("no key of that ID and algorithm is known")
	errSignature   = errors.New("the signature is wrong")
	errExpired     = errors.New("expired")
	errNotYetValid = errors.New("not valid yet")
	errIssuer      = errors.New("of another issuer")
	errAudience    = errors.New("for another audience")
)

// tokenClaim is a claim of a token.
type tokenClaim struct {
	verifier int // its place in the Identifier
	claim    string
	in       string // where the token comes
}

func (s tokenClaim) value(q *Request) string { return lookUp(q.claims(s.verifier), s.claim) }
func (s tokenClaim) name() string            { return "claim " + s.claim + " of the token in " + s.in }
func (s tokenClaim) secret() bool            { return false }

func (s tokenClaim) missed(q *Request) string {
	switch t := q.token(s.verifier); {
	case t.refused != nil:
		return "the token is refused: " + t.refused.Error()
	case t.claims == nil:
		return "there is no token"
	}
	return "the token has no such claim"
}

// lookUp returns the text of a claim. Names may have dots of their own, as
// those that are URLs do, so every dot is tried as the way to an inner claim.
func lookUp(claims map[string]any, name string) string {
	switch v := claims[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := claims[name[:i]].(map[string]any); ok {
			if text := lookUp(inner, name[i+1:]); text != "" {
				return text
			}
		}
	}
	return ""
}

// verifier reads and checks tokens by one set of settings, which any number
// of attributes may share.
type verifier struct {
	settings   JWTSpec // without the claim
	header     string  // in canonical form; or
	cookie     string
	keys       keyring // nil if settings.Unverified
	algorithms []jose.SignatureAlgorithm
	leeway     time.Duration
	clock      func() time.Time
	log        *slog.Logger
}

// claims returns those of the token that r carries, or nil if it carries none, or
// none that holds; then the error says why.
func (v *verifier) claims(r *http.Request) (map[string]any, error) {
	text := v.token(r)
	if text == "" {
		return nil, nil
	}
	claims, err := v.check(r.Context(), text)
	if err != nil {
		v.log.DebugContext(r.Context(), "identity: token refused", "reason", err)
		return nil, err
	}
	return claims, nil
}

func (v *verifier) token(r *http.Request) string {
	if v.cookie != "" {
		return cookie(r, v.cookie)
	}
	text := header(r, v.header)
	token, ok := bearer(text)
	if !ok && v.header != "Authorization" {
		return text
	}
	return token
}

func (v *verifier) check(ctx context.Context, token string) (map[string]any, error) {
	if len(token) > maxToken {
		return nil, errTooLong
	}
	if v.settings.Unverified {
		return unverifiedClaims(token)
	}
	signed, err := jose.ParseSignedCompact(token, v.algorithms)
	if _, other := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); other {
		return nil, errAlgorithm
	}
	if err != nil {
		return nil, errMalformed
	}
	header := signed.Signatures[0].Protected
	keys := v.keys.find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if len(keys) == 0 {
		return nil, errUnknownKey
	}
	for _, key := range keys {
		if payload, err := signed.Verify(key); err == nil {
			return v.checkClaims(payload)
		}
	}
	return nil, errSignature
}

// checkClaims returns the claims in payload, whose signature holds.
func (v *verifier) checkClaims(payload []byte) (map[string]any, error) {
	var registered struct {
		Issuer    string           `json:"iss"`
		Audience  jwt.Audience     `json:"aud"`
		Expiry    *jwt.NumericDate `json:"exp"`
		NotBefore *jwt.NumericDate `json:"nbf"`
		IssuedAt  *jwt.NumericDate `json:"iat"`
	}
	if err := json.Unmarshal(payload, &registered); err != nil {
		return nil, errMalformed
	}
	held := jwt.Claims{
		Issuer: registered.Issuer, Audience: registered.Audience,
		Expiry: registered.Expiry, NotBefore: registered.NotBefore, IssuedAt: registered.IssuedAt,
	}
	expected := jwt.Expected{Issuer: v.settings.Issuer, Time: v.clock()}
	if v.settings.Audience != "" {
		expected.AnyAudience = jwt.Audience{v.settings.Audience}
	}
	switch err := held.ValidateWithLeeway(expected, v.leeway); {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return nil, errIssuer
	case errors.Is(err, jwt.ErrInvalidAudience):
		return nil, errAudience
	case errors.Is(err, jwt.ErrExpired):
		return nil, errExpired
	case err != nil:
		return nil, errNotYetValid
	}
	return decodeClaims(payload)
}

// unverifiedClaims returns the claims of a token without any check.
func unverifiedClaims(token string) (map[string]any, error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return nil, errMalformed
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errMalformed
	}
	return decodeClaims(payload)
}

func decodeClaims(payload []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	// A number is an identifier here: 9007199254740993 must not become a float.
	d.SetNumberType(json.UnmarshalJSONNumber)
	var claims map[string]any
	if err := d.Decode(&claims); err != nil {
		return nil, errMalformed
	}
	return claims, nil
}
