package identity_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stint-dev/stint/identity"
)

func sha256hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestAPIKey(t *testing.T) {
	keys := "# the keys of our clients\n\n" +
		"ann " + sha256hex("k-ann") + " plan=gold region=eu\r\n" +
		"bob\t" + strings.ToUpper(sha256hex("k-bob")) + "\n"
	id := open(t, `
attributes:
  client: [{api_key: {keys_file: keys.txt}}]
  plan: [{api_key: {keys_file: keys.txt, attribute: plan}}]
  by_token: [{api_key: {header: authorization, keys_file: keys.txt}}]
  by_query: [{api_key: {query: key, keys_file: keys.txt}}]
  any: [{api_key: {unverified: true}}]
`, &identity.Options{Dir: write(t, "keys.txt", []byte(keys))})
	for _, tt := range []struct{ attribute, target, header, want string }{
		{"client", "/", "X-API-Key: k-ann", "ann"},
		{"client", "/", "X-API-Key: Bearer k-ann", "ann"},
		{"client", "/", "X-API-Key: k-bob", "bob"},
		{"client", "/", "X-API-Key: k-eve", "-"},
		{"client", "/", "X-API-Key: " + sha256hex("k-ann"), "-"},
		{"client", "/", "X-API-Key: ", "-"},
		{"client", "/?key=k-ann", "X: y", "-"},
		{"plan", "/", "X-API-Key: k-ann", "gold"},
		{"plan", "/", "X-API-Key: k-bob", "-"},
		{"by_token", "/", "Authorization: bearer k-bob", "bob"},
		{"by_query", "/?key=k-bob", "X-API-Key: k-ann", "bob"},
		{"any", "/", "X-API-Key: k-eve", "key:" + sha256hex("k-eve")[:16]},
		{"any", "/", "X: y", "-"},
	} {
		if got := ask(id, get(tt.target, stranger, tt.header), tt.attribute); got != tt.want {
			t.Errorf("%s of %s, %s = %q, want %q", tt.attribute, tt.target, tt.header, got, tt.want)
		}
	}
}
