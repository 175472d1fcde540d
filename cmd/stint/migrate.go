package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/server"
)

// migrateTime is the longest that a migration may take: another one may be
// under way, and this one waits for it.
const migrateTime = time.Minute

type migrateCommand struct {
	Store  string `placeholder:"URL" help:"The store, as a rules file has it: a URL such as postgres://USER@HOST/DATABASE, or env:NAME for the one in an environment variable, which keeps a password out of the list of processes."`
	Config string `short:"c" default:"stint.yaml" env:"STINT_CONFIG" type:"path" placeholder:"FILE" help:"Without --store: the rules file that names the store (default: ${default})."`
	Print  bool   `help:"Print what would be run, and run nothing."`
}

func (migrateCommand) Help() string {
	return `Makes the tables that a store needs, says what it did, and changes nothing that
is there already. Run it before the first start and after an upgrade, with a
user who may create tables; stint serve needs no such right. Any number of
processes may run it at the same time.

    stint migrate --store postgres://admin@db.internal/stint
    stint migrate --config stint.yaml
    stint migrate --store postgres://db.internal/stint --print`
}

func (c migrateCommand) Run(ctx context.Context, std streams) error {
	store, err := c.store()
	if err != nil {
		return err
	}
	kind, _, _ := strings.Cut(store, ":")
	if kind == "memory" {
		_, err := fmt.Fprintln(std.out, "nothing to do: memory needs no tables")
		return err
	}
	s, err := server.StoreOf(stores, store)
	switch {
	case err != nil:
		return err
	case s.Migrate == nil:
		_, err := fmt.Fprintf(std.out, "nothing to do: %s makes its tables when it is opened\n", kind)
		return err
	case c.Print:
		_, err := fmt.Fprintln(std.out, strings.TrimSpace(s.Script()))
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, migrateTime)
	defer cancel()
	done, err := s.Migrate(ctx, store)
	for _, line := range done {
		fmt.Fprintln(std.out, line)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if len(done) == 0 {
		fmt.Fprintln(std.out, "nothing to do")
	}
	return nil
}

// store returns the store to migrate.
func (c migrateCommand) store() (string, error) {
	if c.Store != "" {
		store, err := config.Store(c.Store, "")
		if err != nil {
			return "", fmt.Errorf("--store: %w", err)
		}
		return store, nil
	}
	data, err := os.ReadFile(c.Config)
	if err != nil {
		return "", fmt.Errorf("%w; name a store by --store, or a rules file by --config", err)
	}
	file, problems := config.Parse(c.Config, data)
	if file == nil {
		return "", server.ConfigError(problems)
	}
	store, err := config.Store(file.Store, filepath.Dir(c.Config))
	if err != nil {
		return "", fmt.Errorf("%s: store: %w", c.Config, err)
	}
	return store, nil
}
