package mysql

import (
	"encoding/hex"
	"strconv"
)

// serverClock is the server's clock in microseconds when a statement begins.
const serverClock = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`

// lateClock is the server's clock when it is read, such as after the wait for a lock.
const lateClock = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))`

// maxStatement is about how long a statement may become. A server may take no
// packet of more than 4 MiB, and two statements go in one.
const maxStatement = 1 << 20

// columns are in the order in which a row is written and read.
const columns = `stint_state.key, at, a, b, expires, version, log`

// byKey reads the rows of a list of keys. Statistics that are out of date must
// not make the server read all rows instead.
const byKey = `SELECT ` + columns + ` FROM stint_state FORCE INDEX (PRIMARY) WHERE stint_state.key IN `

// insert writes rows, in the order of their keys: it locks them as they come.
const insert = `INSERT INTO stint_state (` + columns + `) VALUES `

// A statement is SQL in the making. Values are written into it as numbers or in
// hexadecimal, so none of them can have a meaning as SQL.
type statement []byte

func (t *statement) add(parts ...string) {
	for _, part := range parts {
		*t = append(*t, part...)
	}
}

func (t *statement) number(n int64) { *t = strconv.AppendInt(*t, n, 10) }

func (t *statement) bytes(b string) {
	*t = append(*t, "x'"...)
	*t = append(hex.AppendEncode(*t, []byte(b)), '\'')
}

// list writes keys in parentheses, after one that there cannot be: a list must
// not be empty.
func (t *statement) list(keys []string) {
	t.add("(''")
	for _, k := range keys {
		t.add(", ")
		t.bytes(k)
	}
	t.add(")")
}

// pages divides keys so that a list of each part fits a statement. There is
// always one part.
func pages(keys []string) (parts [][]string) {
	from, size := 0, 0
	for i, k := range keys {
		if size += 2*len(k) + 200; size > maxStatement {
			parts = append(parts, keys[from:i])
			from, size = i, 0
		}
	}
	return append(parts, keys[from:])
}
