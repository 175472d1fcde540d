package identity

import (
	"cmp"
	"net/http"

	"github.com/stint-dev/stint/rules"
)

func (b *builder) buildAPIKey(path string, spec APIKeySpec) source {
	built := apiKey{attribute: cmp.Or(spec.Attribute, nameAttribute)}
	switch {
	case spec.Header != "" && spec.Query != "":
		b.report(path, "has header and query; the key comes in one of them")
	case spec.Query != "":
		b.checkName(path+".query", "parameter", spec.Query, anyName)
		built.in = "query parameter " + spec.Query
		built.read = func(r *http.Request) string { return query(r, spec.Query) }
	default:
		name := cmp.Or(spec.Header, "X-API-Key")
		b.checkName(path+".header", "header", name, rules.IsToken)
		name = http.CanonicalHeaderKey(name)
		built.in = "header " + name
		built.read = func(r *http.Request) string { return headerKey(r, name) }
	}
	switch {
	case spec.KeysFile == "" && !spec.Unverified:
		b.report(path, "has no keys_file, so nobody's key is known; give one, or write unverified: true to count by any key that is sent")
	case spec.KeysFile == "" && spec.Attribute != "":
		b.report(path+".attribute", "%s is looked up in keys_file, and there is none", spec.Attribute)
	case spec.KeysFile != "" && spec.Unverified:
		b.report(path+".unverified", "keys_file verifies the key; remove one of them")
	case spec.KeysFile != "":
		built.keys = b.readKeyFile(path+".keys_file", spec.KeysFile)
		if len(built.keys) > 0 && !built.keys.hasAttribute(built.attribute) {
			b.warn(path+".attribute", "no key in %s has %s, so this is always absent; add %s=VALUE to its lines", spec.KeysFile, built.attribute, built.attribute)
		}
	}
	return built
}

// readKeyFile returns the keys in a file, which is read once however many
// sources name it.
func (b *builder) readKeyFile(path, name string) keyFile {
	if f, done := b.keyFiles[name]; done || b.offline {
		return f
	}
	var f keyFile
	data, err := readFile(b.file(name), maxKeysFile)
	if err == nil {
		f, err = parseKeyFile(string(data))
	}
	if err != nil {
		b.report(path, "%s: %v", b.file(name), err)
	}
	if b.keyFiles == nil {
		b.keyFiles = map[string]keyFile{}
	}
	b.keyFiles[name] = f
	return f
}
