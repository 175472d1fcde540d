package postgres

import "context"

// SetClock makes an SQL expression the clock of the Store that is opened with o.
func (o *Options) SetClock(expression string) { o.clock = expression }

// Settings are those of each connection.
const Settings = settings

// Sweep sweeps now.
func (s *Store) Sweep(ctx context.Context) error { return s.sweepOnce(ctx) }

// Statements returns the SQL that a Store runs on its table.
func Statements() map[string]string {
	s := statementsWith(serverClock)
	return map[string]string{"look": s.look, "commit": s.commit, "swap": s.swap, "lock": s.lock, "forget": s.forget, "take": s.take, "page": s.page, "sweep": s.sweep}
}
