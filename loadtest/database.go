package loadtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// work is what a PostgreSQL server says that one of its databases has done.
type work struct {
	transactions int64
	statements   int64 // -1 if the extension pg_stat_statements is not there
}

// isPostgres reports whether a store's URL leads to a PostgreSQL server.
func isPostgres(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// workOf asks the server what the database has done. A server process tells of
// its work when it ends, at the latest; with wait, workOf waits for the others
// on this database to end, but not long: they may be somebody else's.
func workOf(ctx context.Context, store string, wait bool) (w work, err error) {
	c, err := pgx.Connect(ctx, store)
	if err != nil {
		return w, fmt.Errorf("the store cannot be asked for its statistics: %w", err)
	}
	defer c.Close(ctx)
	for deadline := time.Now().Add(2 * time.Second); wait && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var others int
		if err := c.QueryRow(ctx, othersQuery).Scan(&others); err != nil || others == 0 {
			break
		}
	}
	if err := c.QueryRow(ctx, transactionsQuery).Scan(&w.transactions); err != nil {
		return w, fmt.Errorf("the store cannot be asked for its statistics: %w", err)
	}
	if err := c.QueryRow(ctx, statementsQuery).Scan(&w.statements); err != nil {
		w.statements = -1
	}
	return w, nil
}

const (
	othersQuery = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`
	transactionsQuery = `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`
	statementsQuery   = `SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
		WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`
)
