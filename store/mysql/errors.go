package mysql

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/stint-dev/stint/limit"
)

// name is what errors call the store.
const name = "mysql"

// What the server answers, by its number.
const (
	tooMany        = 1040
	noDatabaseFor  = 1044
	noPassword     = 1045
	noDatabase     = 1049
	duplicate      = 1062
	noRight        = 1142
	noTable        = 1146
	duringCommit   = 1180
	noSuchSetting  = 1193
	tooManyOfUser  = 1203
	userLimit      = 1226
	lockTimeout    = 1205
	deadlock       = 1213
	readOnlyServer = 1290
	outOfRange     = 1690 // see the expression overtaken
	statementBased = 1665
	readOnlyUser   = 1792
	readOnlyEngine = 1836
)

const namePrimary = "name the server that takes writes, or an address that leads to it"

// advice is what to do about an answer.
var advice = map[uint16]string{
	tooMany:        "lower pool_max_conns in the URLs, or raise the server's max_connections",
	noDatabaseFor:  "let an administrator grant it, or name another database in the URL",
	noPassword:     "check the user and the password in the URL",
	noDatabase:     "create the database first",
	noRight:        "let an administrator grant it",
	noTable:        "run: stint migrate",
	noSuchSetting:  "take it out of the URL: neither the driver nor the server knows it",
	tooManyOfUser:  "lower pool_max_conns in the URLs, or raise the user's max_user_connections",
	userLimit:      "let an administrator raise this limit",
	readOnlyServer: namePrimary,
	statementBased: "set the server's binlog_format to ROW or MIXED",
	readOnlyUser:   "set transaction_read_only, which MariaDB calls tx_read_only, to off for this user",
	readOnlyEngine: namePrimary,
}

// fault returns err as op's, or nil if there is none. committing says that it
// came of a statement that changes something for good.
func (s *Store) fault(op string, committing bool, err error) error {
	if err == nil {
		return nil
	}
	s.leaveReplica(err)
	return &limit.StoreError{Store: name, Op: op, Sent: committing && sent(err), Err: explain(err)}
}

// leaveReplica closes the connections if err says that they lead to what is no
// primary, or no more.
func (s *Store) leaveReplica(err error) {
	if takesNoWrites(err) {
		s.db.SetMaxIdleConns(0)
		s.db.SetMaxIdleConns(s.opts.PoolSize)
	}
}

// sent reports whether what failed with err may have been committed. It was not
// if the server says that it failed, or if it never left.
func sent(err error) bool {
	if n := number(err); n > 0 {
		return n == duringCommit
	}
	_, waiting := errors.AsType[*noConnection](err)
	return !waiting && !errors.Is(err, driver.ErrBadConn)
}

// noConnection is why none could be had from the pool.
type noConnection struct {
	err  error
	size int // of the pool, if all of it is in use
}

func (e *noConnection) Error() string {
	if e.size > 0 && number(e.err) == 0 {
		return fmt.Sprintf("all %d connections are in use: %v", e.size, e.err)
	}
	return fmt.Sprintf("cannot connect: %v", e.err)
}
func (e *noConnection) Unwrap() error { return e.err }

// again reports whether a transaction that failed with err may succeed if it is
// run again: somebody else was faster, or has the locks.
func again(err error) bool {
	n := number(err)
	return n == outOfRange || n == deadlock || n == lockTimeout
}

// takesNoWrites reports whether err says that the server is no primary, or none
// any more.
func takesNoWrites(err error) bool {
	n := number(err)
	return n == readOnlyServer || n == readOnlyUser || n == readOnlyEngine
}

// number is that of a server's answer; 0 if err is none.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
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
	if n := number(err); n > 0 {
		words := message(err)
		if do := advice[n]; do != "" {
			words += "; " + do
		}
		return &explained{words, err}
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) {
		return &explained{"the connection was lost", err}
	}
	return err
}

// message is what the server says, without its number.
func message(err error) string {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Message
	}
	return err.Error()
}
