package mysql

import "context"

// SetClock makes an SQL expression the clock of the Store that is opened with o.
func (o *Options) SetClock(expression string) { o.clock, o.lateClock = expression, expression }

// Sweep sweeps now.
func (s *Store) Sweep(ctx context.Context) error { return s.sweep(ctx) }
