package identity

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stint-dev/stint/rules"
)

const (
	stdLeeway  = 30 * time.Second
	maxLeeway  = time.Hour
	stdRefresh = 10 * time.Minute
	minRefresh = time.Second
	maxRefresh = 24 * time.Hour
)

// buildJWT returns the source of a claim. Sources that differ in the claim
// alone share a verifier, so that a token is verified once for all of them.
func (b *builder) buildJWT(path string, spec JWTSpec) source {
	name := cmp.Or(spec.Claim, "sub")
	b.checkName(path+".claim", "claim", name, anyName)
	spec.Claim = ""
	at := slices.IndexFunc(b.id.verifiers, func(v *verifier) bool { return reflect.DeepEqual(v.settings, spec) })
	if at < 0 {
		at = len(b.id.verifiers)
		b.id.verifiers = append(b.id.verifiers, b.buildVerifier(path, spec))
	}
	in := "header " + cmp.Or(spec.Header, "Authorization")
	if spec.Cookie != "" {
		in = "cookie " + spec.Cookie
	}
	return tokenClaim{verifier: at, claim: name, in: in}
}

func (b *builder) buildVerifier(path string, spec JWTSpec) *verifier {
	v := &verifier{settings: spec, cookie: spec.Cookie, leeway: stdLeeway, clock: b.Clock, log: b.Logger}
	if spec.Header != "" && spec.Cookie != "" {
		b.report(path, "has header and cookie; the token comes in one of them")
	}
	if spec.Cookie != "" {
		b.checkName(path+".cookie", "cookie", spec.Cookie, rules.IsToken)
	} else {
		v.header = cmp.Or(spec.Header, "Authorization")
		b.checkName(path+".header", "header", v.header, rules.IsToken)
		v.header = http.CanonicalHeaderKey(v.header)
	}
	if spec.Leeway != nil {
		v.leeway = time.Duration(*spec.Leeway)
	}
	if v.leeway < 0 || v.leeway > maxLeeway {
		b.report(path+".leeway", "%s is out of bounds; 0s to 1h are allowed", rules.Duration(v.leeway))
	}
	sources := keySources(&spec)
	switch {
	case spec.Unverified:
		b.checkUnverified(path, &spec, fieldsOf(sources))
	case len(sources) == 0:
		b.report(path, "has no key to verify tokens with; give one of hmac_secret_file, hmac_secret_env, pem_file, jwks_file and jwks_url, or write unverified: true to believe any token")
	case len(sources) > 1:
		b.report(path, "has %s; one key is allowed", strings.Join(fieldsOf(sources), " and "))
	default:
		b.buildKeys(path, sources[0], v)
	}
	return v
}

// keySource is a field that names a key, and what it says.
type keySource struct{ field, value string }

// keySources returns those that are set.
func keySources(spec *JWTSpec) []keySource {
	all := []keySource{
		{"hmac_secret_file", spec.HMACSecretFile},
		{"hmac_secret_env", spec.HMACSecretEnv},
		{"pem_file", spec.PEMFile},
		{"jwks_file", spec.JWKSFile},
		{"jwks_url", spec.JWKSURL},
	}
	return slices.DeleteFunc(all, func(s keySource) bool { return s.value == "" })
}

func fieldsOf(sources []keySource) (fields []string) {
	for _, s := range sources {
		fields = append(fields, s.field)
	}
	return fields
}

// checkUnverified reports what would look as if it were checked and is not.
func (b *builder) checkUnverified(path string, spec *JWTSpec, idle []string) {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"refresh", spec.Refresh != 0},
		{"algorithms", spec.Algorithms != nil},
		{"issuer", spec.Issuer != ""},
		{"audience", spec.Audience != ""},
		{"leeway", spec.Leeway != nil},
	} {
		if field.set {
			idle = append(idle, field.name)
		}
	}
	if len(idle) > 0 {
		b.report(path+".unverified", "believes any token, so %s would not be used; remove the one or the other", strings.Join(idle, " and "))
	}
}

// buildKeys reads the key or key set that from names.
func (b *builder) buildKeys(path string, from keySource, v *verifier) {
	v.algorithms = b.algorithms(path+".algorithms", from.field, v.settings.Algorithms)
	switch from.field {
	case "jwks_file", "jwks_url":
		v.keys = b.buildKeySet(path, from, v.settings.Refresh)
	default:
		if v.settings.Refresh != 0 {
			b.report(path+".refresh", "%s is read once; refresh is for jwks_file and jwks_url", from.field)
		}
		v.keys = b.openKey(path, from, v)
	}
}

// algorithms returns those that a token may be signed with.
func (b *builder) algorithms(path, source string, names []string) []jose.SignatureAlgorithm {
	allowed := publicAlgorithms
	if strings.HasPrefix(source, "hmac_") {
		allowed = hmacAlgorithms
	}
	if names == nil {
		return allowed
	}
	var chosen []jose.SignatureAlgorithm
	for _, name := range names {
		a := jose.SignatureAlgorithm(name)
		switch {
		case strings.EqualFold(name, "none"):
			b.report(path, "none is never accepted: anybody can write such a token")
		case !slices.Contains(allowed, a):
			b.report(path, "%q can't be verified with %s; %s are allowed", name, source, join(allowed))
		default:
			chosen = append(chosen, a)
		}
	}
	if len(names) == 0 {
		b.report(path, "is empty, so no token would be accepted; remove it, or name some of %s", join(allowed))
	}
	return chosen
}

func join(algorithms []jose.SignatureAlgorithm) string {
	var names []string
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}

func (b *builder) buildKeySet(path string, from keySource, every rules.Duration) keyring {
	refresh := cmp.Or(time.Duration(every), stdRefresh)
	if refresh < minRefresh || refresh > maxRefresh {
		b.report(path+".refresh", "%s is out of bounds; 1s to 1d are allowed", every)
	}
	path += "." + from.field
	if from.field == "jwks_file" {
		name := b.file(from.value)
		return b.openKeySet(path, name, refresh, func(context.Context) ([]byte, error) {
			return readFile(name, maxKeyData)
		})
	}
	if err := checkKeyURL(from.value); err != nil {
		b.report(path, "%v", err)
		return nil
	}
	return b.openKeySet(path, from.value, refresh, fetch(b.HTTPClient, from.value))
}

// openKeySet returns the key set at target, which it reads for the first time
// unless another verifier has it, too.
func (b *builder) openKeySet(path, target string, refresh time.Duration, load func(context.Context) ([]byte, error)) keyring {
	if b.offline {
		return nil
	}
	for _, set := range b.id.keySets {
		if set.target == target && set.refresh == refresh {
			return set
		}
	}
	set := &keySet{
		target: target, load: load, refresh: refresh, clock: b.Clock, log: b.Logger,
		missed: make(chan chan struct{}), stopped: make(chan struct{}),
	}
	if err := set.read(context.Background()); err != nil {
		b.report(path, "%s: %v", set.name(), err)
	}
	b.id.keySets = append(b.id.keySets, set)
	return set
}

// openKey returns the secret or public key that from names, which is read once.
func (b *builder) openKey(path string, from keySource, v *verifier) keyring {
	if b.offline {
		return nil
	}
	name := from.value
	if from.field != "hmac_secret_env" {
		name = b.file(name)
	}
	key, err := readKey(from.field, name)
	if err != nil {
		b.report(path+"."+from.field, "%s: %v", name, err)
		return nil
	}
	for _, a := range v.algorithms {
		if v.settings.Algorithms != nil && !key.fits(a) {
			b.report(path+".algorithms", "%s does not fit the key in %s, which is for %s", a, name, join(key.algorithms))
		}
	}
	return key
}
