package postgres

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/limit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// version is the schema that this package works with: the number of the last
// file in migrations.
const version = 4

// What is run before the first migration and after each. The lock, which is the
// letters of stint, is held until the transaction ends.
const (
	beforeMigrations = `SELECT pg_advisory_xact_lock(x'7374696e74'::bigint);
CREATE TABLE IF NOT EXISTS stint_schema (
    version integer     NOT NULL PRIMARY KEY,
    applied timestamptz NOT NULL DEFAULT now()
);
`
	afterMigration = "INSERT INTO stint_schema (version) VALUES (%d);\n"
)

// Migrate makes the tables in the database at url what this package works with,
// in one transaction, and returns what it has done: nothing if there was nothing
// to do. It is safe to run it twice at once. The error is a *limit.StoreError.
func Migrate(ctx context.Context, url string) (done []string, err error) {
	config, err := parse(url)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		done, err = migrate(ctx, config.ConnConfig)
	}
	switch {
	case err == nil:
		return done, nil
	case code(err) == noRight:
		err = &explained{fmt.Sprintf("%s; name a user who may in: stint migrate --store %s", message(err), redact(url)), err}
	default:
		err = explain(err)
	}
	return nil, &limit.StoreError{Store: name, Op: "migrate", Err: err}
}

func migrate(ctx context.Context, config *pgx.ConnConfig) (done []string, err error) {
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	// Whoever may not make tables may well see that there is nothing to make.
	has, err := schemaVersion(ctx, c)
	if err != nil && code(err) != noTable {
		return nil, err
	}
	if has == version {
		return nil, nil
	}
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		done, err = migrateIn(ctx, tx)
		return err
	})
	return done, err
}

func migrateIn(ctx context.Context, tx pgx.Tx) (done []string, err error) {
	if _, err := tx.Exec(ctx, beforeMigrations); err != nil {
		return nil, err
	}
	has, err := schemaVersion(ctx, tx)
	if err != nil {
		return nil, err
	}
	if has > version {
		return nil, newer(has)
	}
	for v := has + 1; v <= version; v++ {
		if _, err := tx.Exec(ctx, migration(v)); err != nil {
			return nil, err
		}
		done = append(done, fmt.Sprintf("schema version %d", v))
	}
	return done, nil
}

// Script returns what Migrate runs on a database without Stint's tables.
func Script() string {
	var b strings.Builder
	b.WriteString("BEGIN;\n" + beforeMigrations)
	for v := 1; v <= version; v++ {
		b.WriteString(migration(v))
	}
	b.WriteString("COMMIT;\n")
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
func schemaVersion(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (v int, err error) {
	err = db.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM stint_schema").Scan(&v)
	return v, err
}

func newer(has int) error {
	return fmt.Errorf("the tables have schema version %d, and this Stint knows up to %d; run the newer Stint that made them", has, version)
}
