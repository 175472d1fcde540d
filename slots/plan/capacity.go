package plan

// Capacity returns how many slots lie at from <= At < to, free or not, while each
// version is in force. It does not know what is booked: where a config has changed,
// less of it may be used, because what was booked before has to be made room for.
// What is over at New's now is not counted.
func (t *Timeline) Capacity(from, to Ticks) (slots int64) {
	for _, p := range t.spans {
		start, end := max(from, p.from), min(to, p.until)
		if start < end {
			slots += p.slotsBefore(end) - p.slotsBefore(start)
		}
	}
	return slots
}

// slotsBefore returns how many slots of the span's windows lie before an instant.
func (p *span) slotsBefore(at Ticks) int64 {
	switch k := p.grid.window(at); {
	case k < p.lo:
		return 0
	case k >= p.hi:
		return (p.hi - p.lo) * int64(p.Max)
	default:
		return (k-p.lo)*int64(p.Max) + int64(p.phases.rank(p.grid.offset(k, at)))
	}
}
