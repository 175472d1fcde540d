package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

const (
	minSecret  = 32   // bytes, of an HMAC secret for HS256
	minRSA     = 2048 // bits
	maxKeys    = 64   // of a key set
	maxMatches = 4    // keys that one token is tried with
)

var (
	hmacAlgorithms  = []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}
	rsaAlgorithms   = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	ecdsaAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512}
	edAlgorithms    = []jose.SignatureAlgorithm{jose.EdDSA}

	publicAlgorithms = slices.Concat(rsaAlgorithms, ecdsaAlgorithms, edAlgorithms)
)

// keyring holds the keys that tokens may be signed with.
type keyring interface {
	// find returns the keys of that ID which can have signed with algorithm.
	find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) []any
}

// verifyKey proves signatures. The algorithms come from the key, never from a
// token: a public key can't be used as an HMAC secret.
type verifyKey struct {
	id         string
	key        any
	algorithms []jose.SignatureAlgorithm
}

func (k verifyKey) fits(algorithm jose.SignatureAlgorithm) bool {
	return slices.Contains(k.algorithms, algorithm)
}

// find makes a single key a keyring. There is no other, so the ID is not asked.
func (k verifyKey) find(_ context.Context, _ string, algorithm jose.SignatureAlgorithm) []any {
	if !k.fits(algorithm) {
		return nil
	}
	return []any{k.key}
}

// newVerifyKey returns key with the algorithms that fit it.
func newVerifyKey(key any) (verifyKey, error) {
	switch k := key.(type) {
	case []byte:
		if len(k) < minSecret {
			return verifyKey{}, fmt.Errorf("the secret is shorter than %d bytes, the least that HS256 allows", minSecret)
		}
		// RFC 7518, section 3.2: as many bytes as the hash has.
		fit := hmacAlgorithms[:min(len(k)/16-1, len(hmacAlgorithms))]
		return verifyKey{key: key, algorithms: fit}, nil
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSA {
			return verifyKey{}, fmt.Errorf("the RSA key has %d bits; %d or more are allowed", bits, minRSA)
		}
		return verifyKey{key: key, algorithms: rsaAlgorithms}, nil
	case *ecdsa.PublicKey:
		if i := slices.Index([]int{256, 384, 521}, k.Curve.Params().BitSize); i >= 0 {
			return verifyKey{key: key, algorithms: ecdsaAlgorithms[i : i+1]}, nil
		}
		return verifyKey{}, fmt.Errorf("the ECDSA key is on the curve %s; P-256, P-384 and P-521 are allowed", k.Curve.Params().Name)
	case ed25519.PublicKey:
		return verifyKey{key: key, algorithms: edAlgorithms}, nil
	}
	return verifyKey{}, errors.New("is of a type that signs no tokens; RSA, ECDSA and Ed25519 are allowed")
}

// readKey returns the key that a field of a JWTSpec names.
func readKey(field, name string) (verifyKey, error) {
	if field == "hmac_secret_env" {
		secret, set := os.LookupEnv(name)
		if !set {
			return verifyKey{}, errors.New("the environment has no such variable; set it to the secret")
		}
		return newVerifyKey([]byte(secret))
	}
	data, err := readFile(name, maxKeyData)
	switch {
	case err != nil:
		return verifyKey{}, err
	case field == "pem_file":
		return parsePEM(data)
	}
	// A line break at the end of a secret is the editor's.
	return newVerifyKey(bytes.TrimRight(data, "\r\n"))
}

// parsePEM reads a public key, or that of the first certificate.
func parsePEM(data []byte) (verifyKey, error) {
	block, rest := pem.Decode(data)
	if block == nil {
		return verifyKey{}, errors.New("is not PEM; a public key or a certificate is needed")
	}
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return verifyKey{}, errors.New("holds a private key, which has no business here; give the public key, as openssl pkey -pubout writes it")
		}
		return verifyKey{}, fmt.Errorf("holds a %s; a PUBLIC KEY or a CERTIFICATE is needed", block.Type)
	}
	if err != nil {
		return verifyKey{}, fmt.Errorf("the %s can't be read", block.Type)
	}
	if next, _ := pem.Decode(rest); next != nil && block.Type != "CERTIFICATE" {
		return verifyKey{}, errors.New("holds more than one key; put several into a jwks_file")
	}
	return newVerifyKey(key)
}

// parseKeySet reads a JSON Web Key Set (RFC 7517). Keys that are of no use
// here are passed over: of other types and uses, symmetric, private.
func parseKeySet(data []byte) ([]verifyKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New("is not a JSON Web Key Set, which is an object with a list of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("has %d keys; %d are allowed", len(set.Keys), maxKeys)
	}
	var keys []verifyKey
	for _, raw := range set.Keys {
		var jwk jose.JSONWebKey
		if jwk.UnmarshalJSON(raw) != nil || !jwk.IsPublic() || cmp.Or(jwk.Use, "sig") != "sig" {
			continue
		}
		key, err := newVerifyKey(jwk.Key)
		if err != nil {
			continue
		}
		key.id = jwk.KeyID
		if only := jose.SignatureAlgorithm(jwk.Algorithm); only != "" {
			if !key.fits(only) {
				continue
			}
			key.algorithms = []jose.SignatureAlgorithm{only}
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("has no public key for signatures")
	}
	return keys, nil
}
