package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
)

//go:embed migrations/*.sql
var migrations embed.FS

// version is the schema that this package works with: the number of the last
// file in migrations.
const version = 4

// migrate brings the schema up to version. Whoever comes first does it; the
// file's user_version says what has been done. It is written in any case, so
// that a file that cannot be written is told now and not by the first update.
func (s *Store) migrate(ctx context.Context) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	has, err := schemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	if has > version {
		return fmt.Errorf("the file has schema version %d, and this Stint knows up to %d; run the newer Stint that made it", has, version)
	}
	for v := has + 1; v <= version; v++ {
		text, err := migrations.ReadFile(fmt.Sprintf("migrations/%d.sql", v))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("migration %d: %w", v, err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return err
	}
	return tx.Commit()
}

func schemaVersion(ctx context.Context, tx *sql.Tx) (v int, err error) {
	err = tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v)
	return v, err
}
