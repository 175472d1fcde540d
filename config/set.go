package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// set puts what is written as FIELD=VALUE, such as listen.proxy=:8000, into
// the file that is being read, in place of what it says there. VALUE is YAML.
// A problem in it is located in the first line of the file.
func set(root *yaml.Node, text string) error {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return fmt.Errorf("--set %s: write FIELD=VALUE, such as listen.proxy=:8000", quote(text))
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(value), &document); err != nil {
		return fmt.Errorf("--set %s: what is behind the = is not YAML; quote it", path)
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	if len(document.Content) == 1 {
		node = document.Content[0]
	}
	return put(root, path, path, node)
}

// put puts value at rest from n. path is all of the way, for messages.
func put(n *yaml.Node, path, rest string, value *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("--set %s: leads into %s; only fields of mappings can be set", path, kindOf(n))
	}
	name, rest, deeper := strings.Cut(rest, ".")
	at := -1
	for i := 0; i+1 < len(n.Content); i += 2 {
		if resolve(n.Content[i]).Value == name {
			at = i + 1
		}
	}
	if at < 0 {
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: 1, Column: 1}
		n.Content = append(n.Content, key, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1})
		at = len(n.Content) - 1
	}
	if deeper {
		return put(resolve(n.Content[at]), path, rest, value)
	}
	n.Content[at] = value
	return nil
}
