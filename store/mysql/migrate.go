package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/limit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// version is the schema that this package works with: the number of the last
// file in migrations.
const version = 4

// What is run before the first migration and after each. A server commits each
// statement by itself, so each can be run again.
const (
	beforeMigrations = `CREATE TABLE IF NOT EXISTS stint_schema (
    version INT         NOT NULL PRIMARY KEY,
    applied DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB;
`
	afterMigration = "INSERT INTO stint_schema (version) VALUES (%d);\n"
)

// migrateLock is held while a database is migrated: whoever comes second waits.
const migrateLock = `CONCAT('stint migrate ', SHA1(DATABASE()))`

// Migrate makes the tables in the database at url what this package works with,
// and returns what it has done: nothing if there was nothing to do. It is safe to
// run it twice at once, and after one that failed halfway. The error is a
// *limit.StoreError.
func Migrate(ctx context.Context, url string) (done []string, err error) {
	t, err := parse(url)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		done, err = migrate(ctx, t)
	}
	switch {
	case err == nil:
		return done, nil
	case number(err) == noRight:
		err = &explained{fmt.Sprintf("%s; name a user who may in: stint migrate --store %s", message(err), t.url), err}
	default:
		err = explain(err)
	}
	return nil, &limit.StoreError{Store: name, Op: "migrate", Err: err}
}

func migrate(ctx context.Context, t target) (done []string, err error) {
	db, err := connect(t.config, t.config.Timeout)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, &noConnection{err: err}
	}
	defer c.Close()
	// Whoever may not make tables may well see that there is nothing to make.
	has, err := schemaVersion(ctx, c)
	if err != nil && number(err) != noTable {
		return nil, err
	}
	switch {
	case has == version:
		return nil, nil
	case has > version:
		return nil, newer(has)
	}
	var alone sql.NullBool
	wait := int(openTimeout.Seconds())
	err = c.QueryRowContext(ctx, "SELECT GET_LOCK("+migrateLock+", ?)", wait).Scan(&alone)
	switch {
	case errors.Is(err, context.DeadlineExceeded), err == nil && !alone.Bool:
		return nil, &explained{"somebody else is migrating this database; try again", err}
	case err != nil:
		return nil, err
	}
	return migrateAlone(ctx, c) // the lock ends with the connection
}

func migrateAlone(ctx context.Context, c *sql.Conn) (done []string, err error) {
	if _, err := c.ExecContext(ctx, beforeMigrations); err != nil {
		return nil, err
	}
	has, err := schemaVersion(ctx, c)
	if err != nil {
		return nil, err
	}
	if has > version {
		return nil, newer(has)
	}
	for v := has + 1; v <= version; v++ {
		if _, err := c.ExecContext(ctx, migration(v)); err != nil {
			return nil, err
		}
		done = append(done, fmt.Sprintf("schema version %d", v))
	}
	return done, nil
}

// Script returns what Migrate runs on a database without Stint's tables.
func Script() string {
	var b strings.Builder
	b.WriteString(beforeMigrations)
	for v := 1; v <= version; v++ {
		b.WriteString(migration(v))
	}
	return b.String()
}

func migration(v int) string {
	text, err := migrations.ReadFile(fmt.Sprintf("migrations/%d.sql", v))
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(text) + fmt.Sprintf(afterMigration, v)
}

// schemaVersion returns 0 if nothing has been migrated yet.
func schemaVersion(ctx context.Context, c *sql.Conn) (v int, err error) {
	err = c.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM stint_schema").Scan(&v)
	return v, err
}

func newer(has int) error {
	return fmt.Errorf("the tables have schema version %d, and this Stint knows up to %d; run the newer Stint that made them", has, version)
}
