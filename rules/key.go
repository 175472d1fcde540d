package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/limit"
)

// MaxKey is the most bytes of a Match's Key. With any policy it makes a store
// key of at most limit.MaxKeyLen bytes.
const MaxKey = limit.MaxKeyLen - 2 - limit.MaxNameLen

// A key is a row of parts, one for each entry of a rule's key:
//
//	length of the name, name, length of the value, value
//
// A length is one byte. Two numbers that no length reaches stand in place of
// the value's: keyHashed before the SHA-256 of a value that is too long, and
// keyMissing where the request has no such attribute. A key that would have
// more than MaxKey bytes is keyWhole, which no name's length is, and the
// SHA-256 of all of it. So two keys are equal only if their values are.
const (
	maxKeyParts = 8
	maxKeyValue = 64
	keyHashed   = maxKeyValue + 1
	keyMissing  = maxKeyValue + 2
	keyWhole    = 0

	maxKeyPart = 1 + maxAttributeName + 1 + maxKeyValue
)

// keyPart is one entry of a rule's key: an attribute, and those to take
// instead where it is missing or empty.
type keyPart []string

// of returns the first attribute of the part that the request has.
func (p keyPart) of(a *attributes) (name, value string, ok bool) {
	for i, name := range p {
		value, found := a.get(name)
		if value != "" {
			return name, value, true
		}
		ok = ok || i == 0 && found
	}
	return p[0], "", ok
}

// makeKey returns the key of a request. It allocates only the result, unless a
// value has many hundreds of bytes.
func makeKey(parts []keyPart, a *attributes) string {
	var scratch [maxKeyParts * maxKeyPart]byte
	key := scratch[:0]
	for _, part := range parts {
		name, value, ok := part.of(a)
		key = append(key, byte(len(name)))
		key = append(key, name...)
		switch {
		case !ok:
			key = append(key, keyMissing)
		case len(value) > maxKeyValue:
			// The scratch behind the key has room for most values.
			hash := sha256.Sum256(append(key[len(key):], value...))
			key = append(append(key, keyHashed), hash[:]...)
		default:
			key = append(key, byte(len(value)))
			key = append(key, value...)
		}
	}
	if len(key) > MaxKey {
		hash := sha256.Sum256(key)
		key = append(append(key[:0], keyWhole), hash[:]...)
	}
	return string(key)
}

// DescribeKey writes a Match's Key for people, such as "user=alex
// ip=192.0.2.7". A value that could be mistaken for something else is quoted,
// one that was too long is the beginning of its SHA-256, and "-" is a missing
// attribute. What is not a key is quoted as it is.
func DescribeKey(key string) string { return DescribeKeyWithout(key, nil) }

// DescribeKeyWithout is DescribeKey, and says only that there are values of the
// attributes that secret reports, if it is not nil.
func DescribeKeyWithout(key string, secret func(attribute string) bool) string {
	if key == "" {
		return "all requests"
	}
	if key[0] == keyWhole && len(key) == 1+sha256.Size {
		return describeHash(key[1:])
	}
	var b strings.Builder
	for rest := key; rest != ""; {
		name, value, tail, ok := cutKeyPart(rest)
		if !ok {
			return strconv.Quote(key)
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if secret != nil && value != missing && secret(name) {
			value = "(not shown)"
		}
		b.WriteString(name + "=" + value)
		rest = tail
	}
	return b.String()
}

// cutKeyPart reads the first part of key; value is already for people.
func cutKeyPart(key string) (name, value, tail string, ok bool) {
	name, tail, ok = cutBytes(key[1:], int(key[0]))
	if !ok || !IsAttributeName(name) || tail == "" {
		return "", "", "", false
	}
	length := int(tail[0])
	switch tail = tail[1:]; {
	case length == keyMissing:
		return name, missing, tail, true
	case length == keyHashed:
		value, tail, ok = cutBytes(tail, sha256.Size)
		return name, describeHash(value), tail, ok
	case length > maxKeyValue:
		return "", "", "", false
	}
	value, tail, ok = cutBytes(tail, length)
	if !isPlain(value) {
		value = strconv.Quote(value)
	}
	return name, value, tail, ok
}

// KeyAttribute returns the value of an attribute in a Match's Key, written as
// DescribeKey does. It reports false if the rule does not count by that
// attribute, if the request had none, and if the key is too long to have kept
// its parts. It allocates only what has to be quoted.
func KeyAttribute(key, attribute string) (string, bool) {
	for rest := key; rest != "" && rest[0] != keyWhole; {
		name, value, tail, ok := cutKeyPart(rest)
		switch {
		case !ok || name == attribute && value == missing:
			return "", false
		case name == attribute:
			return value, true
		}
		rest = tail
	}
	return "", false
}

// missing is what DescribeKey writes for an attribute that a request had not.
// A value that looks like it is quoted.
const missing = "-"

func cutBytes(s string, n int) (head, tail string, ok bool) {
	if n > len(s) {
		return "", "", false
	}
	return s[:n], s[n:], true
}

func describeHash(hash string) string {
	return "sha256:" + hex.EncodeToString([]byte(hash[:min(len(hash), 6)])) + "..."
}

// isPlain reports whether a value reads as itself without quotes.
func isPlain(value string) bool {
	return value != "" && value != missing && !strings.HasPrefix(value, "sha256:") &&
		strings.IndexFunc(value, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\=", r)
		}) < 0
}

// CheckKey returns what is wrong with a rule's key that stands at a path.
func CheckKey(at string, key []string) []Problem {
	var c compiler
	c.compileKey(at, key)
	return c.problems
}

func (c *compiler) compileKey(at string, spec []string) []keyPart {
	if len(spec) > maxKeyParts {
		c.problem(at, "%d attributes are given; at most %d are allowed", len(spec), maxKeyParts)
		return nil
	}
	var parts []keyPart
	for i, text := range spec {
		part := c.compileKeyPart(item(at, i), text)
		switch {
		case part == nil:
		case slices.ContainsFunc(parts, func(o keyPart) bool { return slices.Equal(o, part) }):
			c.problem(item(at, i), "%q is there already; leave one out", text)
		default:
			parts = append(parts, part)
			c.usesAPI = c.usesAPI || slices.Contains(part, apiAttribute)
		}
	}
	return parts
}

// compileKeyPart returns nil if text is no entry of a key.
func (c *compiler) compileKeyPart(at, text string) keyPart {
	part := keyPart(strings.Split(text, "|"))
	for i, name := range part {
		part[i] = strings.TrimSpace(name)
	}
	switch bad := slices.IndexFunc(part, func(name string) bool { return !IsAttributeName(name) }); {
	case bad >= 0 && part[bad] == "":
		c.problem(at, "%q has an empty attribute; an attribute, or several with | between them, is allowed", text)
	case bad >= 0:
		c.problem(at, "%q is not an attribute; %s", part[bad], attributeNameHelp)
	default:
		return part
	}
	return nil
}
