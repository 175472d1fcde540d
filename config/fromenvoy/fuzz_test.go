package fromenvoy

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/config"
)

// FuzzTranslate: whatever the file, it is refused with its own lines, or becomes a
// rules file without a problem.
func FuzzTranslate(f *testing.F) {
	for _, text := range []string{
		"domain: d\ndescriptors:\n- {key: a, value: a*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: a, rate_limit: {name: x, unit: week, requests_per_unit: 0x10}}\n",
		"domain: \"yes\"\ndescriptors:\n- key: \"\\u2028\"\n  value: \"#\\t: %2F\"\n  shadow_mode: true\n  quota_mode: true\n  rate_limit: {unlimited: true, replaces: [{name: x}]}\n  descriptors: [{key: a/b, rate_limit: {unit: SECOND, requests_per_unit: 1, replaces: [{name: y}]}}]\n",
		"a: &a [*a]\n",
		"",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		translated := Translate([]File{{Name: "f.yaml", Data: []byte(text)}})
		if translated.Rules == nil {
			for _, p := range translated.Problems {
				if p.File != "f.yaml" {
					t.Errorf("%v\n%s", p, text)
				}
			}
			return
		}
		if file, problems := config.Parse("rules", translated.Rules); file == nil || strings.Contains(string(translated.Rules), "\x00") {
			t.Errorf("%v\n%s", problems, translated.Rules)
		}
	})
}
