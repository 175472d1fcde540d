package loadtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/rules"
)

var placeholder = regexp.MustCompile(`\$\{([^}]*)\}?`)

// placeholders returns what stands for what in the texts of an instance:
//
//	${proxy} ${api}              addresses of this instance's own, host:port
//	${upstream}                  URL of the service that takes note of grants
//	${store}                     where to count
//	${algorithm} ${quota}        the limit that is promised, its window
//	${window} ${burst}           as short as compress makes it
//	${instance}                  0 for the first
func (s *Scenario) placeholders(store, upstream, proxy, api string, instance int) map[string]string {
	p := s.policy()
	return map[string]string{
		"store":     store,
		"upstream":  upstream,
		"proxy":     proxy,
		"api":       api,
		"instance":  strconv.Itoa(instance),
		"algorithm": s.Limit.Algorithm,
		"quota":     strconv.FormatInt(p.Quota, 10),
		"window":    rules.Duration(p.Window).String(),
		"burst":     strconv.FormatInt(p.Limit().Burst, 10),
	}
}

// samples returns placeholders that are as good as any, to look at a text
// before there are instances.
func (s *Scenario) samples() map[string]string {
	return s.placeholders("memory", "http://127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", 0)
}

// expand replaces the placeholders in text.
func expand(text string, values map[string]string) (string, error) {
	names := slices.Sorted(maps.Keys(values))
	if err := onlyPlaceholders(text, names...); err != nil {
		return "", err
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		return values[found[2:len(found)-1]]
	}), nil
}

// onlyPlaceholders returns an error if text has a placeholder that is not one of names.
func onlyPlaceholders(text string, names ...string) error {
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		if !strings.HasSuffix(found[0], "}") || !slices.Contains(names, found[1]) {
			return fmt.Errorf("%q is not a placeholder; ${%s} is allowed", found[0], strings.Join(names, "}, ${"))
		}
	}
	return nil
}
