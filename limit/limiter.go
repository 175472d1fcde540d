package limit

import (
	"context"
	"time"
)

// Options configure a Limiter. The zero value is ready to use.
type Options struct {
	// Local is the store for policies in Local mode and for FailLocal; it
	// should keep its states in this process. Defaults to the limiter's store.
	Local Store
	// Timeout bounds one call of the store, whatever the caller's context
	// allows. Defaults to 1s.
	Timeout time.Duration
	// MaxBatch is the most spends that go to the store in one update.
	// Defaults to 1000.
	MaxBatch int
	// MaxWaiting is the most spends that wait for the store at one time; one
	// more is answered as if the store had failed. Defaults to 10000.
	MaxWaiting int
	// MaxDenials is the number of keys whose denial is remembered.
	// Defaults to 10000; -1 remembers none.
	MaxDenials int
	// Observer, if set, is told what the limiter does.
	Observer Observer
}

// Observer is told what a Limiter does. Its methods are called on the way of
// a request and must not block.
type Observer interface {
	// Updated: one store update for so many spends took so long.
	Updated(spends int, took time.Duration, err error)
	// Remembered: a spend was denied from memory, without the store.
	Remembered()
}

// Spend is one cost to be charged to one key of one policy.
type Spend struct {
	Policy *Policy
	Key    string
	Cost   int64
}

// Limiter decides by the states in a Store. It is safe for simultaneous use.
type Limiter struct{ store Store }

// New returns a Limiter over s. A nil o is the zero Options.
func New(s Store, o *Options) *Limiter { return &Limiter{store: s} }

func (l *Limiter) Take(ctx context.Context, p *Policy, key string, cost int64) (Decision, error) {
	panic("being written")
}

func (l *Limiter) TakeAll(ctx context.Context, spends []Spend) ([]Decision, error) {
	panic("being written")
}

func (l *Limiter) PeekAll(ctx context.Context, spends []Spend) ([]Decision, error) {
	panic("being written")
}

func (l *Limiter) Peek(ctx context.Context, p *Policy, key string, cost int64) (Decision, error) {
	panic("being written")
}

func (l *Limiter) Refund(ctx context.Context, p *Policy, key string, cost int64) (Decision, error) {
	panic("being written")
}

func (l *Limiter) Reset(ctx context.Context, p *Policy, key string) error { panic("being written") }

func (l *Limiter) Wait(ctx context.Context, p *Policy, key string, cost int64) (Decision, error) {
	panic("being written")
}
