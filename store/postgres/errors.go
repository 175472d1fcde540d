package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-dev/stint/limit"
)

// name is what errors call the store.
const name = "postgres"

// What the server answers, by SQLSTATE.
const (
	noPassword    = "28P01"
	noDatabase    = "3D000"
	noSchema      = "3F000"
	noTable       = "42P01"
	noRight       = "42501"
	readOnly      = "25006"
	tooMany       = "53300"
	deadlock      = "40P01"
	serialization = "40001"
	duplicate     = "23505"
	notANumber    = "22P02" // see the expression overtaken
)

// advice is what to do about an answer.
var advice = map[string]string{
	noPassword: "check the user and the password in the URL",
	noDatabase: "create the database first",
	noSchema:   "create the schema of the URL's search_path first",
	noTable:    "run: stint migrate",
	noRight:    "let the owner grant it",
	readOnly:   "name all the servers in the URL, and target_session_attrs=read-write",
	tooMany:    "lower pool_max_conns in the URLs, or raise the server's max_connections",
}

// fault returns err as op's, or nil if there is none.
func (s *Store) fault(op string, err error) error { return s.faultOf(op, err, sent(err)) }

// faultBefore is fault of what is no commit.
func (s *Store) faultBefore(op string, err error) error { return s.faultOf(op, err, false) }

func (s *Store) faultOf(op string, err error, sent bool) error {
	if err == nil {
		return nil
	}
	s.leaveStandby(err)
	return &limit.StoreError{Store: name, Op: op, Sent: sent, Err: explain(err)}
}

// leaveStandby closes the connections if err says that they lead to what is no
// primary, or no more.
func (s *Store) leaveStandby(err error) {
	if code(err) == readOnly {
		s.pool.Reset()
	}
}

// sent reports whether what failed with err may have been committed. It was not
// if the server says that it failed, or if it never left.
func sent(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.SeverityUnlocalized != "ERROR"
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, waiting := errors.AsType[*noConnection](err)
	return !connecting && !waiting && !pgconn.SafeToRetry(err)
}

// noConnection is why none could be had from the pool.
type noConnection struct {
	err  error
	size int // of the pool, if all of it is in use
}

func (e *noConnection) Error() string {
	if e.size > 0 {
		return fmt.Sprintf("all %d connections are in use: %v", e.size, e.err)
	}
	return fmt.Sprintf("cannot connect: %v", e.err)
}
func (e *noConnection) Unwrap() error { return e.err }

// errOvertaken: a row that was to be overwritten has another version by now.
var errOvertaken = errors.New("somebody else was faster")

func isOvertaken(err error) bool { return err == errOvertaken || code(err) == notANumber }

// again reports whether a transaction that failed with err may succeed if it is
// run again: the server has rolled it back because of another one.
func again(err error) bool {
	c := code(err)
	return c == deadlock || c == serialization || isOvertaken(err)
}

// constraint names what a row that was refused would break.
func constraint(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.ConstraintName
	}
	return ""
}

func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// explained is an error in other words.
type explained struct {
	words string
	error
}

func (e *explained) Error() string { return e.words }
func (e *explained) Unwrap() error { return e.error }

// explain says err in one line, and what to do about it.
func explain(err error) error {
	if c := code(err); c != "" {
		words := message(err)
		if do := advice[c]; do != "" {
			words += "; " + do
		}
		return &explained{words, err}
	}
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		tries := strings.Split(e.Unwrap().Error(), "\n")
		slices.Sort(tries)
		return &explained{"cannot connect: " + strings.Join(slices.Compact(tries), "; "), err}
	}
	return err
}

// message is what the server says, without its code.
func message(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	return err.Error()
}
