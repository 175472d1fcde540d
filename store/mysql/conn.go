package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// settings are those of a connection that the statements here rely on, whatever
// the server's are. A statement waits for a lock for a second at most: a caller
// who has gone away must not go on holding others, and one who has not tries
// again. The comment is for MariaDB alone: a long list of keys stays a list. A
// variable has the type of what it was set to before the statement, see takeEnd.
// @idle is for how long a connection may say nothing, see ledgerTx.
const settings = `
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION sql_mode = 'STRICT_ALL_TABLES', autocommit = 1, completion_type = 0, sql_safe_updates = 0, innodb_lock_wait_timeout = 1
	/*M!100500 , in_predicate_conversion_threshold = 0 */;
SET SESSION time_zone = '+00:00', @now = 0, @at = 0, @a = 0, @b = 0, @owed = 0, @n = 0, @found = 0,
	@idle = @@SESSION.wait_timeout`

// connector makes connections with the settings.
type connector struct {
	driver.Connector
	timeout time.Duration
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := made.(driver.ExecerContext).ExecContext(ctx, settings, nil); err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// conn is a connection of the pool.
type conn struct{ *sql.Conn }

// do calls f with a connection. It calls f again if the server had closed that
// connection before f said anything on it.
func (s *Store) do(ctx context.Context, f func(c *conn) error) error {
	for tries := 0; ; tries++ {
		c, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		err = f(c)
		c.Close()
		if !errors.Is(err, driver.ErrBadConn) || tries == s.opts.PoolSize {
			return err
		}
	}
}

// acquire returns a connection of the pool, which its caller closes to give it back.
func (s *Store) acquire(ctx context.Context) (*conn, error) {
	c, err := s.db.Conn(ctx)
	if err == nil {
		return &conn{c}, nil
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) && errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.DeadlineExceeded // a dial in vain does not say whose deadline it was
	}
	busy := 0
	if n := s.db.Stats(); n.InUse >= n.MaxOpenConnections {
		busy = s.opts.PoolSize
	}
	return nil, &noConnection{err, busy}
}

// exec runs text, one statement or several.
func (c *conn) exec(ctx context.Context, text string) error {
	_, err := c.ExecContext(ctx, text)
	return err
}

// query runs text, one statement or several, and calls each with every row of
// every answer. The row is valid only until each returns.
func (c *conn) query(ctx context.Context, text []byte, each func(row []driver.Value)) error {
	return c.answers(ctx, text, func(_ int, row []driver.Value) error {
		each(row)
		return nil
	})
}

// answers is query for an each that is told which answer, counted from 0 among
// those that have columns, the row is of. If it returns an error, that is all.
//
// It goes to the driver itself, since database/sql would take longer to look at
// a row than the server to find it.
func (c *conn) answers(ctx context.Context, text []byte, each func(answer int, row []driver.Value) error) error {
	return c.Raw(func(made any) error {
		rows, err := made.(driver.QueryerContext).QueryContext(ctx, string(text), nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		answers := rows.(driver.RowsNextResultSet)
		for answer := 0; ; answer++ {
			row := make([]driver.Value, len(rows.Columns()))
			for err = rows.Next(row); err == nil; err = rows.Next(row) {
				if err := each(answer, row); err != nil {
					return err
				}
			}
			if err != io.EOF {
				return err
			}
			if err := answers.NextResultSet(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
}

// rollback ends a transaction that has failed, whatever has become of ctx, and
// then runs more statements, if any.
func (c *conn) rollback(ctx context.Context, more ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if c.exec(ctx, strings.Join(append([]string{"ROLLBACK"}, more...), "; ")) != nil {
		c.discard()
	}
}

// discard keeps c from being used again. What the server holds for it ends with it.
func (c *conn) discard() {
	c.Raw(func(any) error { return driver.ErrBadConn })
}
