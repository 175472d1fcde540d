package identity

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzKeysFile reads what may stand in a keys file. What is accepted must come
// out the same when it is written down and read again.
func FuzzKeysFile(f *testing.F) {
	digest := strings.Repeat("0f", 32)
	for _, seed := range []string{
		"", "# comment", "ann", "ann secret", "ann " + digest, "ann " + digest + " plan=gold region=eu\r\nbob " + strings.Repeat("1e", 32),
		"ann " + digest + " =x", "ann " + digest + " x=", "ann " + digest + "\nbob " + digest, "ann " + digest + " a=b a=c", "a\x00b " + digest,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		keys, err := parseKeyFile(data)
		if err != nil {
			if keys != nil {
				t.Error("there are keys, and an error")
			}
			return
		}
		var written strings.Builder
		for d, attributes := range keys {
			fmt.Fprintf(&written, "%s %s", attributes[nameAttribute], hex.EncodeToString(d[:]))
			for name, val := range attributes {
				if name != nameAttribute {
					fmt.Fprintf(&written, " %s=%s", name, val)
				}
			}
			fmt.Fprintln(&written)
		}
		again, err := parseKeyFile(written.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(keys, again); diff != "" {
			t.Error(diff)
		}
	})
}
