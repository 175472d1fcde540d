package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/stint-dev/stint/limit"
)

// Options configure a Store. The zero value is ready to use.
type Options struct {
	// PoolSize is the most connections that the store has open. Defaults to the
	// URL's pool_max_conns or, if it has none, to 8.
	PoolSize int
	// ConnectTimeout bounds the making of a connection. Defaults to the URL's
	// timeout or, if it has none, to 5s.
	ConnectTimeout time.Duration
	// SweepEvery is how often the rows of states that expired a minute ago are
	// deleted, in small batches that hold nobody up and by one node at a time.
	// Defaults to 1m.
	SweepEvery time.Duration
	// Logger is told about sweeps that fail. Defaults to slog.Default().
	Logger *slog.Logger

	clock, lateClock string // SQL expressions, for tests; the server's clock if empty
}

// openTimeout bounds what Open and Migrate wait for a server.
const openTimeout = 10 * time.Second

// Open connects to the database at url, such as
//
//	mysql://stint@db.example.com/app?tls=true
//
// and checks that a Store can work with it. mariadb:// means the same. The URL
// may have whatever go-sql-driver/mysql knows as parameters of its DSN, among it
// timeout and readTimeout; any setting of the server for its sessions;
// pool_max_conns; and ssl-ca, a file of certificates that the server's must be
// signed by. A nil o is the zero Options.
//
// The error is a *limit.StoreError that says what is wrong and what to do. It
// never has the password in it.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	s := new(Store)
	if o != nil {
		s.opts = *o
	}
	t, err := parse(url)
	if err != nil {
		return nil, &limit.StoreError{Store: name, Op: "open", Err: err}
	}
	s.opts.apply(t)
	if s.db, err = connect(t.config, s.opts.ConnectTimeout); err != nil {
		return nil, &limit.StoreError{Store: name, Op: "open", Err: err}
	}
	s.db.SetMaxOpenConns(s.opts.PoolSize)
	s.db.SetMaxIdleConns(s.opts.PoolSize)
	if err := s.check(ctx, t); err != nil {
		s.db.Close()
		return nil, &limit.StoreError{Store: name, Op: "open", Err: err}
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.background.Go(s.sweepEvery)
	return s, nil
}

// apply fills in what o leaves open.
func (o *Options) apply(t target) {
	if o.PoolSize <= 0 {
		o.PoolSize = t.poolSize
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = t.config.Timeout
	}
	if o.SweepEvery <= 0 {
		o.SweepEvery = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.clock == "" {
		o.clock, o.lateClock = serverClock, lateClock
	}
}

func connect(config *mysql.Config, timeout time.Duration) (*sql.DB, error) {
	c, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector{c, timeout}), nil
}

// check looks whether a Store can work with what t names.
func (s *Store) check(ctx context.Context, t target) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	c, err := s.db.Conn(ctx)
	if err != nil {
		return explain(&noConnection{err: err})
	}
	defer c.Close()
	var readOnly, product string
	if err := c.QueryRowContext(ctx, "SELECT @@global.read_only, VERSION()").Scan(&readOnly, &product); err != nil {
		return explain(err)
	}
	s.returning = strings.Contains(product, "MariaDB")
	if readOnly != "0" && readOnly != "OFF" {
		return errors.New("the server takes no writes, as a replica does: read_only is on; " + namePrimary)
	}
	has, err := schemaVersion(ctx, c)
	switch {
	case number(err) == noTable:
		return missing("stint_state", t)
	case number(err) == noRight:
		return cmp.Or(checkRights(ctx, c, t), explain(err))
	case err != nil:
		return explain(err)
	case has < version:
		return fmt.Errorf("the tables have schema version %d, and this Stint needs %d; run: stint migrate --store %s", has, version, t.url)
	case has > version:
		return newer(has)
	}
	return checkRights(ctx, c, t)
}

// tables are those that a Store reads and writes, how many columns each has, and
// one of them that is a number.
var tables = []struct {
	name    string
	columns int
	number  string
}{
	{"stint_state", 7, "a"},
	{"stint_slot_config", 4, "revision"},
	{"stint_slot_version", 7, "n"},
	{"stint_slot", 8, "booked"},
	{"stint_slot_cancelled", 9, "booked"},
	{"stint_slot_window", 4, "win"},
	{"stint_slot_run", 4, "hi"},
	{"stint_slot_delivery", 10, "due"},
	{"stint_rule", 10, "calls"},
	{"stint_rule_change", 12, "calls"},
}

// right is one that a Store needs, and a statement that does nothing and needs it.
type right struct{ table, right, statement string }

func rights() []right {
	all := []right{{"stint_schema", "SELECT", "SELECT version FROM stint_schema WHERE FALSE"}}
	for _, t := range tables {
		all = append(all,
			right{t.name, "SELECT", "SELECT " + t.number + " FROM " + t.name + " WHERE FALSE"},
			right{t.name, "INSERT", "INSERT INTO " + t.name + " SELECT " + strings.Repeat("0, ", t.columns-1) + "0 FROM DUAL WHERE FALSE"},
			right{t.name, "UPDATE", "UPDATE " + t.name + " SET " + t.number + " = 0 WHERE FALSE"},
			right{t.name, "DELETE", "DELETE FROM " + t.name + " WHERE FALSE"},
		)
	}
	return all
}

func checkRights(ctx context.Context, c *sql.Conn, t target) error {
	lacks := make(map[string][]string) // of each table
	for _, r := range rights() {
		_, err := c.ExecContext(ctx, r.statement)
		switch n := number(err); {
		case n == noTable:
			return missing(r.table, t)
		case n == noRight:
			lacks[r.table] = append(lacks[r.table], r.right)
		case err != nil:
			return explain(err)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	var user string
	if err := c.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&user); err != nil {
		return explain(err)
	}
	host := strings.LastIndex(user, "@")
	account := quote("'", user[:host]) + "@" + quote("'", user[host+1:])
	alike := make(map[string][]string) // the tables that lack the same
	var grants []string
	for _, table := range slices.Sorted(maps.Keys(lacks)) {
		rights := strings.Join(lacks[table], ", ")
		alike[rights] = append(alike[rights], table)
		grants = append(grants, fmt.Sprintf("GRANT %s ON %s.%s TO %s", rights, quote("`", t.config.DBName), table, account))
	}
	var may []string
	for _, rights := range slices.Sorted(maps.Keys(alike)) {
		may = append(may, rights+" "+strings.Join(alike[rights], ", "))
	}
	return fmt.Errorf("the user %s may not %s; let an administrator run: %s", user, strings.Join(may, ", nor "), strings.Join(grants, "; "))
}

func missing(table string, t target) error {
	return fmt.Errorf("the table %s is missing; run: stint migrate --store %s", table, t.url)
}

// quote writes a name between marks in SQL.
func quote(mark, name string) string {
	return mark + strings.ReplaceAll(name, mark, mark+mark) + mark
}
