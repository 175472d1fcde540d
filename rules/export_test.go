package rules

// PathNames makes the names of APIs by one PathSpec. It does not change and is
// safe for simultaneous use.
type PathNames struct{ paths paths }

// NewPathNames returns what names APIs by spec, and what is wrong with it, in
// which case PathNames is nil.
func NewPathNames(spec PathSpec) (*PathNames, []Problem) {
	var c compiler
	p := c.compilePaths("paths", &spec)
	if c.failed > 0 {
		return nil, c.problems
	}
	return &PathNames{p}, c.problems
}

// API returns the attribute api of a request whose path is raw, percent-encoding
// and all: that of NormalizePath behind the segment after, with # in place of
// every id and ASCII letters in lower case.
func (p *PathNames) API(raw string) string { return p.paths.api(NormalizePath(raw)) }
