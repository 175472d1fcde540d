package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-dev/stint/limit"
)

// pingEvery is how often a connection on which nothing is heard is tried.
const pingEvery = 10 * time.Second

// Notify implements [limit.Notifier] by NOTIFY.
func (s *Store) Notify(ctx context.Context, message string) error {
	if err := s.enter(ctx, "notify"); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	err := s.do(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_notify($1, $2)", s.channel, message)
		return err
	})
	return s.fault("notify", err)
}

// Listen implements [limit.Notifier] by LISTEN, on a connection of its own.
func (s *Store) Listen(ctx context.Context, heard func(message string)) error {
	return s.hear(ctx, "listen", "SELECT '"+s.channel+"'", heard)
}

// hear listens for op on the channel that a query names.
func (s *Store) hear(ctx context.Context, op, channel string, heard func(message string)) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	s.background.Add(1) // while s.inside is held it is not waited for
	s.inside.RUnlock()
	defer s.background.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ending, func() { cancel(limit.ErrClosed) })()
	err := s.listen(ctx, channel, heard)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return s.fault(op, err)
}

// listen calls heard until an error, which is never nil.
func (s *Store) listen(ctx context.Context, query string, heard func(message string)) error {
	c, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		c.Close(ctx)
	}()
	var channel string
	if err := c.QueryRow(ctx, query).Scan(&channel); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	heard("")
	for {
		n, err := wait(ctx, c)
		switch {
		case err == nil:
			heard(n.Payload)
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			// In a silence that has lasted, the server may be gone.
			if err := ping(ctx, c); err != nil {
				return err
			}
		}
	}
}

// wait returns the next notification, if one comes before it is time for a ping.
func wait(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	return c.WaitForNotification(ctx)
}

func ping(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	return c.Ping(ctx)
}
