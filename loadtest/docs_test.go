package loadtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var scenarioFence = regexp.MustCompile("(?ms)^```yaml scenario(\\S*)\n(.*?)^```$")

// TestDocument parses the scenarios in docs/scenarios.md. A part of one stands
// in place of that part of another that is good; the first whole one is
// scenarios/first.yaml.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile("../scenarios/first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fences := scenarioFence.FindAllStringSubmatch(string(text), -1)
	if len(fences) < 5 {
		t.Fatalf("only %d scenarios were found", len(fences))
	}
	for _, fence := range fences {
		part, yaml := strings.TrimPrefix(fence[1], "-"), fence[2]
		if part == "" {
			if !strings.HasSuffix(string(first), "\n"+yaml) {
				t.Errorf("scenarios/first.yaml is not what the document says it is:\n%s", yaml)
			}
			continue
		}
		if s, problems := Parse("scenarios.md", []byte(withPart(string(first), part, yaml)), 0); s == nil {
			t.Errorf("%v in\n%s", problems, yaml)
		}
	}
}

// withPart returns file with another part of that name.
func withPart(file, part, yaml string) string {
	lines := "\n" + part + ":\n  " + strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n  ") + "\n"
	old := regexp.MustCompile(`(?m)^` + part + `:.*\n(?:(?: .*)?\n)*`)
	file = old.ReplaceAllString(file, lines)
	if part == "instances" { // what is checked of Stint's own instances
		file = strings.NewReplacer("metrics: true", "", "spacing: true", "").Replace(file)
	}
	return file
}
