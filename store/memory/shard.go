package memory

import (
	"math"
	"sync"

	"github.com/stint-dev/stint/limit/algo"
)

const (
	// sweepLen is how many entries an insertion looks at for expired ones.
	// Where as many come as go, one of them has expired on average: a quarter
	// of all entries.
	sweepLen = 4
	// sampleLen is how many entries compete to be forgotten by a full shard.
	sampleLen = 8
)

// shard is a part of the keys. mu protects all of it.
type shard struct {
	mu sync.Mutex
	table
	most      int // entries
	hand      int // the entry that is looked at next; it goes round
	expired   uint64
	forgotten uint64
	_         [32]byte // two cache lines a shard: neighbours must share none
}

func (s *shard) init(most int) {
	s.table = newTable()
	s.most = most
}

// read returns the state of entry i: zero if i is -1 or the entry has expired.
func (s *shard) read(i int, now algo.Ticks) algo.State {
	if i >= 0 {
		if e := s.entry(i); e.expires > now {
			return e.state
		}
	}
	return algo.State{}
}

// write keeps state for key, whose entry is i or, if i is -1, a new one.
func (s *shard) write(i int, h uint64, key []byte, state algo.State, now, ttl algo.Ticks) {
	switch {
	case ttl > 0 && state != algo.State{}:
		e := s.place(i, h, key, now)
		e.state, e.expires = state, until(now, ttl)
	case i >= 0:
		s.remove(i)
	}
}

// place returns entry i or, if i is -1, a new one for key.
func (s *shard) place(i int, h uint64, key []byte, now algo.Ticks) *entry {
	if i >= 0 {
		return s.entry(i)
	}
	s.sweep(now)
	if s.n >= s.most {
		s.forget(now)
	}
	return s.insert(h, string(key))
}

// sweep drops what has expired among the next few entries.
func (s *shard) sweep(now algo.Ticks) {
	for range min(sweepLen, s.n) {
		s.turn()
		if s.entry(s.hand).expires > now {
			s.hand++
			continue
		}
		s.remove(s.hand) // the last entry is now the one at hand
		s.expired++
	}
}

// forget drops the entry that expires soonest among the next few: the one with
// the least to lose, or nothing if it has expired.
func (s *shard) forget(now algo.Ticks) {
	s.turn()
	soonest := s.hand
	for range min(sampleLen, s.n) {
		s.turn()
		if s.entry(s.hand).expires < s.entry(soonest).expires {
			soonest = s.hand
		}
		s.hand++
	}
	if s.entry(soonest).expires <= now {
		s.expired++
	} else {
		s.forgotten++
	}
	s.remove(soonest)
}

// turn brings the hand back to the first entry after the last.
func (s *shard) turn() {
	if s.hand >= s.n {
		s.hand = 0
	}
}

func until(now, ttl algo.Ticks) algo.Ticks {
	if ttl > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + ttl
}
