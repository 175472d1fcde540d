package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// nameAttribute is the attribute that every line of a keys file begins with.
const nameAttribute = "name"

// apiKey is the owner of an API key, or the start of its digest where the
// keys are not known.
type apiKey struct {
	in        string
	read      func(r *http.Request) string
	keys      keyFile // nil: any key will do
	attribute string
}

func (s apiKey) value(q *Request) string {
	key := s.read(q.http)
	if key == "" {
		return ""
	}
	d := digest(sha256.Sum256([]byte(key)))
	if s.keys == nil {
		return "key:" + hex.EncodeToString(d[:8])
	}
	return s.keys[d][s.attribute]
}

func (s apiKey) name() string { return "API key in " + s.in }
func (s apiKey) secret() bool { return false } // it yields an owner, or a digest

func (s apiKey) missed(q *Request) string {
	key := s.read(q.http)
	switch owner := s.keys[sha256.Sum256([]byte(key))]; {
	case key == "":
		return absent
	case owner == nil:
		return "the key is not known"
	}
	return "the owner of the key has no " + s.attribute
}

// headerKey returns the key in a header, with or without Bearer before it.
func headerKey(r *http.Request, name string) string {
	text := header(r, name)
	if key, ok := bearer(text); ok {
		return key
	}
	return text
}

// digest is the SHA-256 of a key. A key is looked up by its digest, so that
// how long it takes says nothing about how much of a guess is right.
type digest [sha256.Size]byte

// keyFile is the known keys: digest to the attributes of the owner.
type keyFile map[digest]map[string]string

// hasAttribute reports whether any key has the attribute.
func (f keyFile) hasAttribute(name string) bool {
	for attributes := range maps.Values(f) {
		if attributes[name] != "" {
			return true
		}
	}
	return false
}

// parseKeyFile reads lines of a name, the SHA-256 of a key in hex, and any
// number of attribute=value. Empty lines and those that begin with # do not
// count. An error names the line, and nothing that is in it but names.
func parseKeyFile(data string) (keyFile, error) {
	f := keyFile{}
	at := 0
	for line := range strings.Lines(data) {
		at++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := f.add(fields); err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
	}
	if len(f) == 0 {
		return nil, errors.New("has no key; a line of a name and the SHA-256 of a key in hex makes one")
	}
	return f, nil
}

func (f keyFile) add(fields []string) error {
	if len(fields) < 2 {
		return errors.New("has one word; a name and the SHA-256 of a key in hex are needed")
	}
	var d digest
	if n, err := hex.Decode(d[:], []byte(fields[1][:min(len(fields[1]), 2*len(d))])); err != nil || n != len(d) || len(fields[1]) != 2*n {
		return errors.New("the second word is not a SHA-256 in hex, which is 64 digits")
	}
	if other, exists := f[d]; exists {
		return fmt.Errorf("has the key of %q again; every key has one owner", other[nameAttribute])
	}
	attributes := map[string]string{nameAttribute: fields[0]}
	for i, field := range fields[2:] {
		name, val, ok := strings.Cut(field, "=")
		if !ok || name == "" || val == "" {
			return fmt.Errorf("word %d is not attribute=value", i+3)
		}
		if attributes[name] != "" {
			return fmt.Errorf("has %s twice", name)
		}
		attributes[name] = val
	}
	f[d] = attributes
	return nil
}
