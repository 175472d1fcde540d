package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// value is what Redis keeps of a state, see lua/cells.lua: its version, its end,
// and the state as appendState writes it. It is empty if there is none.
type value string

const (
	versionLen = 8
	headLen    = versionLen + 8
	stateLen   = 3 * 8
)

// version returns the version as scripts expect it.
func (v value) version() string {
	if v == "" {
		return ""
	}
	return string(v[:versionLen])
}

func (v value) ends() algo.Ticks { return word[algo.Ticks](v[versionLen:]) }

func (v value) state() algo.State {
	if v == "" {
		return algo.State{}
	}
	return readState(string(v[headLen:]))
}

// check returns an error if v is no value.
func (v value) check() error {
	if n := len(v); n > 0 && n < headLen+stateLen {
		return fmt.Errorf("a key holds %d bytes that are no state; if it is somebody else's, choose another prefix", n)
	}
	return nil
}

// appendState appends s without its version and end.
func appendState(b []byte, s algo.State) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.At))
	b = binary.BigEndian.AppendUint64(b, uint64(s.A))
	b = binary.BigEndian.AppendUint64(b, uint64(s.B))
	return append(b, s.Entries()...)
}

func readState(text string) algo.State {
	s := algo.State{At: word[algo.Ticks](text), A: word[int64](text[8:]), B: word[int64](text[16:])}
	return s.WithEntries(text[stateLen:])
}

// word reads the first 8 bytes of text.
func word[T ~int64, S ~string](text S) T {
	var n uint64
	for i := range 8 {
		n = n<<8 | uint64(text[i])
	}
	return T(n)
}

// seen is what the server has told of some keys.
type seen struct {
	now    algo.Ticks
	values []value
}

// written stands in place of the value of a key that was written.
const written value = "="

func readSeen(r rueidis.RedisResult) (*seen, error) {
	reply, err := r.AsStrSlice()
	if err != nil {
		return nil, err
	}
	s := &seen{now: word[algo.Ticks](reply[0]), values: make([]value, len(reply)-1)}
	for i, text := range reply[1:] {
		s.values[i] = value(text)
		if s.values[i] == written {
			continue
		}
		if err := s.values[i].check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// swapArgs returns the arguments of lua/swap.lua before those of the cells.
func (s *Store) swapArgs(how string) []string {
	return s.args(strconv.FormatInt(s.slack.Milliseconds(), 10), how)
}

// lookCall returns the call that loads the keys called names.
func (s *Store) lookCall(names []string) call {
	return call{swapScript, names, s.swapArgs("each")}
}

func (s *Store) look(ctx context.Context, names []string) (*seen, error) {
	return readSeen(s.run(ctx, s.lookCall(names))[0])
}

// commit writes the dirty cells if none of names has changed since it was seen:
// the others neither, since they may be why the dirty ones are as they are.
// Otherwise it returns what is there now.
func (s *Store) commit(ctx context.Context, names []string, before *seen, cells []limit.Cell) (*seen, error) {
	args := slices.Grow(s.swapArgs("together"), 3*len(cells))
	dirty := 0
	for i, c := range cells {
		args = appendCell(args, before.values[i].version(), c)
		if c.Dirty {
			dirty = i
		}
	}
	after, err := readSeen(s.run(ctx, call{swapScript, names, args})[0])
	if err != nil || after.values[dirty] == written {
		return nil, err
	}
	return after, nil
}

// appendCell appends the arguments of one cell for lua/swap.lua.
func appendCell(args []string, version string, c limit.Cell) []string {
	if !c.Dirty {
		return append(args, version, "", "")
	}
	state := appendState(make([]byte, 0, stateLen+len(c.State.Entries())), c.State)
	// A Lua number holds no more than 2^53 exactly, and 200 years are for ever.
	ttl := min(max(0, c.TTL), 200*algo.Year)
	return append(args, version, strconv.FormatInt(int64(ttl), 10), string(state))
}
