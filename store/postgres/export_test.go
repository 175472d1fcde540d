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

// LedgerStatements returns the SQL that a Ledger runs on tables that grow.
func LedgerStatements() map[string]string {
	s, o := ledgerStatementsWith(serverClock), outboxStatementsWith(serverClock)
	return map[string]string{
		"hold": s.hold, "known": s.known, "versions": s.versions, "load": s.load, "strays": s.strays, "taken": s.taken,
		"free": s.free, "book": s.book, "keep": s.keep, "empty": s.empty, "cut": s.cut, "extend": s.extend,
		"config": s.config, "configs": s.configs, "events": s.events, "count": s.count,
		"put": o.put, "remove": o.remove, "deliveries": o.hold, "claim": o.claim, "deliver": o.deliver, "die": o.die,
		"release": o.release, "dead": o.dead, "settle": lockDeliveries,
	}
}
