package slots

// Waiting returns how many jobs wait for the next transaction of a config.
func (s *Scheduler) Waiting(config string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[config]; l != nil {
		return len(l.waiting)
	}
	return 0
}

// Lines returns how many configs s remembers.
func (s *Scheduler) Lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// MaxLines bounds that.
const MaxLines = maxLines
