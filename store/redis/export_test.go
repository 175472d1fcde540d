package redis

import (
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/rules"
)

// SetClock makes s decide by the instant that key holds. What Redis drops, by
// its own clock, it drops a day later than otherwise.
func (s *Store) SetClock(key string) { s.clock, s.slack = key, 24*time.Hour }

// Client returns the connection of s.
func (s *Store) Client() rueidis.Client { return s.client }

// CheckInfo checks the answer to INFO.
func CheckInfo(text string, log *slog.Logger) error { return checkInfo(readInfo(text), log) }

// Name returns what key is called in Redis.
func (s *Store) Name(key string) string { return s.name(key) }

// ReadRow and WriteRow are what a row is in Redis.
func ReadRow(text string) rules.Row  { return readRow(text) }
func WriteRow(row *rules.Row) string { return writeRow(row) }
