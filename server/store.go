package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/store/memory"
)

// Store is one kind of store.
type Store struct {
	// Schemes are what a configuration's store may begin with, in front of the
	// first colon, to be of this kind.
	Schemes []string
	// Open opens the store at url, which is all that the configuration says of
	// it. ctx bounds the opening alone.
	Open func(ctx context.Context, url string, logger *slog.Logger) (limit.Store, error)
	// Migrate makes at url what Open needs to be there, and returns what it
	// did, line by line. It may be run at any time, any number of times. Nil if
	// Open needs nothing.
	Migrate func(ctx context.Context, url string) (done []string, err error)
	// Script returns what Migrate does, for people to read and run themselves.
	// Nil if Migrate is.
	Script func() string
}

// openTime is the longest that a process tries to open its store.
const openTime = 10 * time.Second

// StoreOf returns the one of stores that opens url.
func StoreOf(stores []Store, url string) (Store, error) {
	scheme, _, _ := strings.Cut(url, ":")
	known := []string{"memory"}
	for _, s := range stores {
		if slices.Contains(s.Schemes, scheme) {
			return s, nil
		}
		known = append(known, s.Schemes...)
	}
	return Store{}, fmt.Errorf("store: %q is not known; %s is allowed", scheme, strings.Join(known, ", "))
}

// stores are those that a process uses.
type stores struct {
	local  *memory.Store // of this process, which is there in any case
	shared limit.Store   // of limits; local, if the configuration says so
	ledger slots.Ledger  // nil, if the configuration keeps no slots
	table  *RuleTable    // nil, if it has no rules besides those of the file
	opened []io.Closer
}

// openStores opens all that the configuration names; kinds are those there are. A store
// that is down is an error: a start that fails is noticed, and a mistyped URL is not
// taken for an outage.
func openStores(ctx context.Context, kinds []Store, f *config.File, logger *slog.Logger) (_ *stores, err error) {
	local := memory.New(&memory.Options{MaxKeys: f.Memory.MaxKeys})
	s := &stores{local: local, shared: local, opened: []io.Closer{local}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if f.Store != "memory" {
		if s.shared, err = s.open(ctx, kinds, "store", f.Store, logger); err != nil {
			return nil, err
		}
	}
	// named is the store of another field, which may be the same.
	named := func(field, url string) (limit.Store, error) {
		if url == f.Store {
			return s.shared, nil
		}
		return s.open(ctx, kinds, field, url, logger)
	}
	if url := f.Slots.Store; url != "off" {
		store, err := named("slots.store", url)
		if err != nil {
			return nil, err
		}
		keeper, ok := store.(interface{ Ledger() slots.Ledger })
		if !ok {
			return nil, fmt.Errorf("slots.store: a store of %T cannot keep slots", store)
		}
		s.ledger = keeper.Ledger()
	}
	if url := f.RulesFrom.Store; url != "off" {
		store, err := named("rules_from.store", url)
		if err != nil {
			return nil, err
		}
		keeper, ok := store.(interface{ Rules() rules.Source })
		if !ok {
			return nil, fmt.Errorf("rules_from.store: a store of %T cannot keep rules", store)
		}
		s.table = &RuleTable{Source: keeper.Rules(), every: time.Duration(f.RulesFrom.Every), logger: logger}
	}
	return s, nil
}

// close closes what was opened, the last first.
func (s *stores) close() {
	for _, store := range slices.Backward(s.opened) {
		store.Close()
	}
}

// open opens the store that the configuration's field names.
func (s *stores) open(ctx context.Context, kinds []Store, field, url string, logger *slog.Logger) (limit.Store, error) {
	kind, err := StoreOf(kinds, url)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	opened, err := kind.Open(bounded, url, logger)
	switch {
	case err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: no answer within %v: %w", field, openTime, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	s.opened = append(s.opened, opened)
	logger.Info(field+" open", "store", config.Redact(url))
	return opened, nil
}
