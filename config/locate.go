package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// locate returns the node of the field that path leads to from root, or that
// of the nearest part around it which is in the file. The node of a field is
// its key.
func locate(root *yaml.Node, path string) *yaml.Node {
	at, value := root, root
	for path != "" {
		key, next, rest := step(value, path)
		if next == nil {
			break
		}
		at, value, path = key, resolve(next), rest
	}
	return at
}

// step takes the first element of path from n. A name may have dots itself.
func step(n *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	if n.Kind == yaml.SequenceNode {
		digits, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(digits)
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, nil, ""
		}
		return n.Content[i], n.Content[i], strings.TrimPrefix(rest, ".")
	}
	if n.Kind != yaml.MappingNode {
		return nil, nil, "" // a text in place of a list of one
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		rest, ok := strings.CutPrefix(path, resolve(n.Content[i]).Value)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return n.Content[i], n.Content[i+1], strings.TrimPrefix(rest, ".")
		}
	}
	return nil, nil, ""
}

// within reports whether path is outer or leads to a part of it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// around returns the path of what the last element of path is a part of.
func around(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
