package identity

import "github.com/stint-dev/stint/rules"

// Spec is how people say who their callers are. The yaml tags name the fields
// in a rules file, and doc says what they mean to whoever edits one. The zero
// Spec is valid: it knows the attribute ip, which is the direct peer.
type Spec struct {
	TrustedProxies  []string                `yaml:"trusted_proxies" doc:"Addresses and CIDRs of the proxies in front, such as [10.0.0.0/8, \"::1\"]. Only they are believed about who sends a request."`
	ForwardedHeader string                  `yaml:"forwarded_header" enum:"x-forwarded-for,forwarded" doc:"Where the trusted proxies write the client's address; the other header is never read. Default x-forwarded-for."`
	IPv6Prefix      int                     `yaml:"ipv6_prefix" doc:"How many bits of an IPv6 address make one caller, 1 to 128. Default 64, which is what one customer is given at least."`
	Attributes      map[string][]SourceSpec `yaml:"attributes" doc:"Attribute to its sources, such as user: [{jwt: {pem_file: key.pem}}]. The first source that yields a value wins. The attribute ip is built in."`
}

// SourceSpec is one place to take an attribute from. Exactly one field is set.
type SourceSpec struct {
	JWT       *JWTSpec       `yaml:"jwt" doc:"A claim of a signed token."`
	APIKey    *APIKeySpec    `yaml:"api_key" doc:"The owner of an API key."`
	Header    *NamedSpec     `yaml:"header" doc:"A header, from a trusted proxy; unverified: true believes any caller."`
	Cookie    *NamedSpec     `yaml:"cookie" doc:"A cookie, from a trusted proxy; unverified: true believes any caller."`
	BasicUser *BasicUserSpec `yaml:"basic_user" doc:"The user name of HTTP Basic authentication, whose password is not checked: from a trusted proxy; unverified: true believes any caller."`
	Query     *QuerySpec     `yaml:"query" doc:"A query parameter. It says what is asked for, not who asks: every caller can write any value."`
	Form      *FormSpec      `yaml:"form" doc:"A parameter of an urlencoded form that is POSTed, from a trusted proxy; unverified: true believes any caller."`
	Path      *PathSpec      `yaml:"path" doc:"A segment of the path. It says what is asked for, not who asks: every caller can write any value."`
}

// NamedSpec is a header or a cookie.
type NamedSpec struct {
	Name       string `yaml:"name" required:"true" doc:"The name of the header or cookie. A header that comes more than once counts as absent."`
	Unverified bool   `yaml:"unverified" doc:"Believe every caller, who can make the value up."`
}

// BasicUserSpec is the user name of HTTP Basic authentication.
type BasicUserSpec struct {
	Urlencoded bool `yaml:"urlencoded" doc:"The name is urlencoded, as OAuth 2 has it (RFC 6749, section 2.3.1). Without it, %61pp is another caller than app."`
	Unverified bool `yaml:"unverified" doc:"Believe every caller, who can make the name up."`
}

// QuerySpec is a query parameter.
type QuerySpec struct {
	Name string `yaml:"name" required:"true" doc:"The name of the parameter. If it comes more than once the first counts."`
}

// FormSpec is a parameter of an urlencoded form.
type FormSpec struct {
	Name       string `yaml:"name" required:"true" doc:"The name of the parameter, in any case. If it comes more than once, or in the query string too, it counts as absent."`
	Unverified bool   `yaml:"unverified" doc:"Believe every caller, who can make the value up."`
}

// PathSpec is a segment of the path.
type PathSpec struct {
	Segment int `yaml:"segment" required:"true" doc:"Which segment of the normalised path, from 1: in /repos/acme, acme is segment 2."`
}

// APIKeySpec is an API key. Its value is never used as an attribute, nor logged.
type APIKeySpec struct {
	Header     string `yaml:"header" doc:"The header that carries the key, with or without Bearer before it. Default X-API-Key."`
	Query      string `yaml:"query" doc:"The query parameter that carries the key, in place of a header."`
	KeysFile   string `yaml:"keys_file" doc:"The keys that are known, one a line: name, SHA-256 of the key in hex, and any number of attribute=value."`
	Attribute  string `yaml:"attribute" doc:"Which attribute of the key's line to take. Default name."`
	Unverified bool   `yaml:"unverified" doc:"Without keys_file: take any key, and call its owner key: and the start of its SHA-256."`
}

// JWTSpec is a claim of a signed token, and the key that proves it. A token
// that fails any check counts as absent.
type JWTSpec struct {
	Header         string          `yaml:"header" doc:"The header that carries the token, with Bearer before it (which headers other than Authorization may leave out). Default Authorization."`
	Cookie         string          `yaml:"cookie" doc:"The cookie that carries the token, in place of a header."`
	Claim          string          `yaml:"claim" doc:"The claim to take; realm.name is the claim name inside the claim realm. Default sub. Numbers and booleans become text; lists and objects yield nothing."`
	HMACSecretFile string          `yaml:"hmac_secret_file" doc:"A file that holds the shared secret, of 32 bytes or more. A line break at its end does not count."`
	HMACSecretEnv  string          `yaml:"hmac_secret_env" doc:"The environment variable that holds the shared secret."`
	PEMFile        string          `yaml:"pem_file" doc:"An RSA, ECDSA or Ed25519 public key, or a certificate, in PEM."`
	JWKSFile       string          `yaml:"jwks_file" doc:"A file with a JSON Web Key Set."`
	JWKSURL        string          `yaml:"jwks_url" doc:"Where to fetch a JSON Web Key Set: https, or http on this machine."`
	Refresh        rules.Duration  `yaml:"refresh" doc:"How often jwks_file or jwks_url is read again, 1s to 1d. Default 10m."`
	Algorithms     []string        `yaml:"algorithms" doc:"The algorithms to accept, such as [RS256]. Default: all that fit the type of the key. none is never accepted."`
	Issuer         string          `yaml:"issuer" doc:"What the claim iss must be. Not checked if empty."`
	Audience       string          `yaml:"audience" doc:"What the claim aud must be or contain. Not checked if empty."`
	Leeway         *rules.Duration `yaml:"leeway" doc:"By how much the issuer's clock may differ when exp, nbf and iat are checked, up to 1h. Default 30s."`
	Unverified     bool            `yaml:"unverified" doc:"Believe any token, whoever signed it and whenever. No key may be given then."`
}
