package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/limit"
)

// Options configure a Store. The zero value is ready to use.
type Options struct {
	// PoolSize is the most connections that the store has open, but for one
	// more while somebody listens. Defaults to the URL's pool_max_conns or, if
	// it has none, to 8.
	PoolSize int
	// ConnectTimeout bounds the making of a connection to one server. Defaults
	// to the URL's connect_timeout or, if it has none, to 5s.
	ConnectTimeout time.Duration
	// SweepEvery is how often the rows of states that expired a minute ago are
	// deleted, in small batches that hold nobody up and by one node at a time.
	// Defaults to 1m.
	SweepEvery time.Duration
	// Logger is told about sweeps that fail. Defaults to slog.Default().
	Logger *slog.Logger

	clock string // an SQL expression, for tests; the server's clock if empty
}

// openTimeout bounds what Open and Migrate wait for a server.
const openTimeout = 10 * time.Second

// Open connects to the database at url, such as
//
//	postgres://stint@db.example.com/app?sslmode=verify-full
//
// and checks that a Store can work with it. The URL may have whatever pgx knows,
// among it several hosts, which are tried in turn until one takes writes;
// search_path, the schema of the tables; pool_max_conns; and any setting of the
// server, such as statement_timeout. A nil o is the zero Options.
//
// The error is a *limit.StoreError that says what is wrong and what to do. It
// never has the password in it.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	s := new(Store)
	if o != nil {
		s.opts = *o
	}
	config, err := parse(url)
	if err != nil {
		return nil, &limit.StoreError{Store: name, Op: "open", Err: err}
	}
	s.opts.apply(config)
	if s.channel, err = check(ctx, config.ConnConfig, url); err != nil {
		return nil, &limit.StoreError{Store: name, Op: "open", Err: err}
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, &limit.StoreError{Store: name, Op: "open", Err: err}
	}
	s.sql = statementsWith(s.opts.clock)
	s.ending, s.end = context.WithCancel(context.Background())
	s.background.Go(s.sweepEvery)
	return s, nil
}

// apply makes config and o say the same.
func (o *Options) apply(config *pgxpool.Config) {
	if o.PoolSize > 0 {
		config.MaxConns = int32(o.PoolSize)
	}
	o.PoolSize = int(config.MaxConns)
	if o.ConnectTimeout > 0 {
		config.ConnConfig.ConnectTimeout = o.ConnectTimeout
	}
	if o.SweepEvery <= 0 {
		o.SweepEvery = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.clock == "" {
		o.clock = serverClock
	}
}

// settings are those of a connection that the statements here rely on. They
// look rows up by key; a plan that was made while the table was empty, and kept,
// would read all of it. Whoever stops in the middle of a transaction, with the
// network between gone or the process halted, does not keep its locks for ever.
const settings = `
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;
SET idle_in_transaction_session_timeout = '30s';
SET default_transaction_isolation = 'read committed'`

// parse returns what url says, with the defaults of this package.
func parse(url string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, errors.New("the URL must begin with postgres://; write postgres://USER@HOST/DATABASE")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the URL is wrong: %s; write postgres://USER@HOST/DATABASE, and signs within a password as %%40 for @", reason(err))
	}
	if !strings.Contains(url, "pool_max_conns=") {
		config.MaxConns = 8
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	for _, f := range config.ConnConfig.Fallbacks {
		if (f.Host != config.ConnConfig.Host || f.Port != config.ConnConfig.Port) && config.ConnConfig.ValidateConnect == nil {
			config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, settings)
		return err
	}
	return config, nil
}

// reason returns what is wrong with a URL without quoting it. pgx writes
//
//	cannot parse `URL`: what is wrong (where)
func reason(err error) string {
	text := err.Error()
	text = text[strings.LastIndex(text, "`: ")+len("`: "):]
	what, _, _ := strings.Cut(text, " (")
	return what
}

var secretParameter = regexp.MustCompile(`(?i)((?:ssl)?password=)[^&]*`)

// redact returns url without its password.
func redact(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, _ := strings.Cut(rest[:at], ":")
		rest = user + rest[at:]
	}
	return scheme + "://" + secretParameter.ReplaceAllString(rest, "${1}...")
}

// check looks whether a Store can work with the database at url, and returns
// the channel of its table.
func check(ctx context.Context, config *pgx.ConnConfig, url string) (channel string, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", explain(err)
	}
	defer c.Close(ctx)
	if err := checkServer(ctx, c); err != nil {
		return "", err
	}
	has, err := schemaVersion(ctx, c)
	switch {
	case code(err) == noTable:
		return "", fmt.Errorf("the table stint_state is missing; run: stint migrate --store %s", redact(url))
	case err != nil:
		return "", explain(err)
	case has < version:
		return "", fmt.Errorf("the tables have schema version %d, and this Stint needs %d; run: stint migrate --store %s", has, version, redact(url))
	case has > version:
		return "", newer(has)
	}
	return checkRights(ctx, c, url)
}

func checkServer(ctx context.Context, c *pgx.Conn) error {
	var standby, readOnly bool
	err := c.QueryRow(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'").Scan(&standby, &readOnly)
	switch {
	case err != nil:
		return explain(err)
	case standby:
		return errors.New("the server is a standby, which takes no writes; name the primary, or all the servers and target_session_attrs=read-write")
	case readOnly:
		return errors.New("the server takes no writes from this user: default_transaction_read_only is on; set it to off")
	}
	return nil
}

// moreTables are those of a ledger and of rules.
var moreTables = []string{"stint_slot_config", "stint_slot_version", "stint_slot", "stint_slot_cancelled", "stint_slot_window", "stint_slot_run", "stint_slot_delivery",
	"stint_rule", "stint_rule_change", "stint_rule_version"}

// checkRights looks whether the user may use all the tables, and returns the
// channel of that of the states.
func checkRights(ctx context.Context, c *pgx.Conn, url string) (channel string, err error) {
	const query = `
SELECT name, to_regclass(name)::oid, quote_ident(current_user),
	array(SELECT r FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS r WHERE NOT has_table_privilege(to_regclass(name), r))
FROM unnest($1::text[]) WITH ORDINALITY AS t (name, i) ORDER BY i`
	type table struct {
		Name  string
		OID   *uint32
		User  string
		Lacks []string
	}
	rows, err := c.Query(ctx, query, append([]string{"stint_state"}, moreTables...))
	if err != nil {
		return "", explain(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	if err != nil {
		return "", explain(err)
	}
	for _, t := range tables {
		if t.OID == nil {
			return "", fmt.Errorf("the table %s is missing; run: stint migrate --store %s", t.Name, redact(url))
		}
	}
	states, others := tables[0], tables[1:]
	if len(states.Lacks) > 0 {
		return "", mayNot(states.User, strings.Join(states.Lacks, ", "), states.Name)
	}
	var closed []string
	for _, t := range others {
		if len(t.Lacks) > 0 {
			closed = append(closed, t.Name)
		}
	}
	if len(closed) > 0 {
		return "", mayNot(states.User, "SELECT, INSERT, UPDATE, DELETE", strings.Join(closed, ", "))
	}
	return fmt.Sprintf("stint_%d", *states.OID), nil
}

func mayNot(user, rights, tables string) error {
	return fmt.Errorf("the user %[1]s may not %[2]s %[3]s; let its owner run: GRANT %[2]s ON %[3]s TO %[1]s", user, rights, tables)
}
