package identity

import (
	"maps"
	"slices"

	"github.com/stint-dev/stint/gate"
)

var _ gate.Finder = (*Request)(nil)

// Findings returns all attributes that the Spec names, and ip, and which of their
// sources yield them. It verifies whatever the caller claims. No token, key or claim
// that is not an attribute is in what it returns.
func (q *Request) Findings() []gate.Finding {
	var all []gate.Finding
	for _, name := range slices.Sorted(maps.Keys(q.id.index)) {
		i := q.id.index[name]
		f := gate.Finding{Attribute: name}
		f.Value, _ = q.Attribute(name)
		from := q.values[i].from
		for n, s := range q.id.sources[i] {
			if n == from {
				f.Source, f.Secret = s.name(), s.secret()
				break
			}
			why := s.missed(q)
			if len(s.value(q)) > maxValue {
				why = "it is longer than 8 KiB"
			}
			f.Missed = append(f.Missed, gate.Missed{Source: s.name(), Why: why})
		}
		all = append(all, f)
	}
	return all
}
