package fair

// RebaseAt sets the V from which on virtual times are made small again.
func (r *Room) RebaseAt(v int64) { r.rebase = v }
