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
	"github.com/stint-dev/stint/slots"
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

// openStore opens the store that the configuration names. local is the store
// of this process, which is there in any case. A store that is down is an
// error: a start that fails is noticed, and a mistyped URL is not taken for an
// outage.
func openStore(ctx context.Context, stores []Store, f *config.File, local limit.Store, logger *slog.Logger) (limit.Store, error) {
	if f.Store == "memory" {
		return local, nil
	}
	return openURL(ctx, stores, "store", f.Store, logger)
}

// openURL opens the store that the configuration's field names.
func openURL(ctx context.Context, stores []Store, field, url string, logger *slog.Logger) (limit.Store, error) {
	s, err := StoreOf(stores, url)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	opened, err := s.Open(bounded, url, logger)
	switch {
	case err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: no answer within %v: %w", field, openTime, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	logger.Info(field+" open", "store", config.Redact(url))
	return opened, nil
}

// openLedger opens where the configuration keeps slots, and what is to be closed
// in the end. Both are nil if it keeps none. shared is the store of limits, which
// may be the same.
func openLedger(ctx context.Context, stores []Store, f *config.File, shared limit.Store, logger *slog.Logger) (slots.Ledger, io.Closer, error) {
	url := f.Slots.Store
	if url == "off" {
		return nil, nil, nil
	}
	store, closer := shared, io.Closer(nil)
	if url != f.Store {
		opened, err := openURL(ctx, stores, "slots.store", url, logger)
		if err != nil {
			return nil, nil, err
		}
		store, closer = opened, opened
	}
	keeper, ok := store.(interface{ Ledger() slots.Ledger })
	if !ok {
		return nil, closer, fmt.Errorf("slots.store: a store of %T cannot keep slots", store)
	}
	return keeper.Ledger(), closer, nil
}
