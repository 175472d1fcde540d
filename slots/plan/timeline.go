package plan

import (
	"errors"
	"slices"
)

// Bounds of a Version. Between two slots of a window lie 3 microseconds on
// average, so that all instants are distinct.
const (
	MinWindow = Millisecond
	MaxWindow = 366 * Day
	MaxMax    = 1 << 22
	spacing   = 3 * Microsecond
)

// Version is a config as of some instant on.
type Version struct {
	// From is the instant from which on this version holds in place of those
	// that were made before it.
	From Ticks
	// Max is how many slots lie in every interval of one Window, at most.
	// Window is from MinWindow to MaxWindow, Max from 1 to MaxMax and to a third
	// of the Window's microseconds.
	Max    int
	Window Ticks
	// Mode is Jitter if empty.
	Mode Mode
	// Seed turns the offsets of Jitter, so that configs with different Seeds
	// don't fire together. Spread ignores it.
	Seed uint64
	// Calendar says when slots may lie; nil is always.
	Calendar *Calendar
}

// Timeline is a config with all its versions: when its slots are. It is
// immutable and safe for use by several goroutines. It is worth keeping for as
// long as the versions stay the same, for a few years at most if there is a
// Calendar: that is worked out for 30.
type Timeline struct {
	now   Ticks
	spans []*span // those that are not over at now, in the order of time
}

// span is a stretch of time in which one version holds.
type span struct {
	Version
	era int
	// from and until bound the slots of the era; lo and hi the windows that
	// are this version's.
	from, until Ticks
	lo, hi      int64
	grid        grid
	phases      phases
	// follows says that an era came before this one.
	follows bool
	// others says that there may be slots of other eras.
	others bool
}

// New returns the timeline of versions, which are in the order in which they
// were made: each holds from its From on, whatever earlier ones say about that
// time. None may ever be taken out, because slots are numbered by era, and an
// era by the position of its first version.
//
// What was in force only before now is left out, and nothing can be booked
// before now. It is an error if a version that is not left out is not allowed.
// So a new version is checked by making the timeline that it would lead to.
func New(now Ticks, versions ...Version) (*Timeline, error) {
	if err := checkInstant("now", now); err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, errors.New("versions: none is given; at least one is needed")
	}
	eras := make([]int, len(versions))
	for i, v := range versions {
		if err := checkInstant("from", v.From); err != nil {
			return nil, err
		}
		eras[i] = i
		if i > 0 && v.follows(versions[eras[i-1]]) {
			eras[i] = eras[i-1]
		}
	}
	var live []span
	until := MaxInstant + 1
	for i, v := range slices.Backward(versions) {
		if v.From < until {
			live = append(live, span{Version: v, era: eras[i], from: v.From, until: until})
			until = v.From
		}
	}
	slices.Reverse(live)

	t := &Timeline{now: now}
	for i := 0; i < len(live); {
		n := 1
		for i+n < len(live) && live[i+n].era == live[i].era {
			n++
		}
		if err := t.addEra(live[i:i+n:i+n], i > 0, versions, eras); err != nil {
			return nil, err
		}
		i += n
	}
	return t, nil
}

// follows reports whether v belongs to the era that first began: its slots lie
// in the same places, and at no time before the era.
func (v Version) follows(first Version) bool {
	if v.From < first.From || v.Window != first.Window || !v.Calendar.Equal(first.Calendar) {
		return false
	}
	if v.Mode == Spread || first.Mode == Spread {
		return v.Mode == first.Mode && v.Max == first.Max
	}
	return v.Seed == first.Seed
}

// addEra works out the spans of one era and adds those that are not over.
func (t *Timeline) addEra(spans []span, follows bool, versions []Version, eras []int) error {
	from, until := spans[0].from, spans[len(spans)-1].until
	if until <= t.now {
		return nil
	}
	for _, s := range spans {
		if err := checkPhases(s.Mode, s.Window, s.Max); err != nil {
			return err
		}
	}
	g, err := newGrid(spans[0].Version, t.now)
	if err != nil {
		return err
	}
	for i := range spans {
		s := &spans[i]
		s.grid, s.follows = g, follows
		s.lo, s.hi = g.window(s.from), min(g.window(until-1)+1, g.windows())
		if i+1 < len(spans) {
			s.hi = g.window(spans[i+1].from) // the next version has it whole
		}
	}
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.lo >= s.hi })
	for i := range spans {
		s := &spans[i]
		s.others = slices.ContainsFunc(eras, func(era int) bool { return era != s.era })
		if s.until > t.now {
			s.phases = newPhases(s.Mode, s.Window, s.Seed, s.Max)
			t.spans = append(t.spans, s)
		}
		s.from, s.until = from, until
	}
	return nil
}

// opens returns the first instant at which a slot of the span's era may lie, if
// it is booked at now. While the era before still books, the first Window after
// the change stays closed: no interval of this Window then holds both slots of
// this era and slots that are yet to be booked in the one before.
func (s *span) opens(now Ticks) Ticks {
	if s.follows && now < s.from {
		return min(s.from+s.Window, s.until)
	}
	return s.from
}

// grid says where windows begin and end.
type grid struct {
	width Ticks
	open  *openTime
}

func newGrid(v Version, now Ticks) (grid, error) {
	g := grid{width: v.Window}
	if v.Calendar == nil {
		return g, nil
	}
	var err error
	g.open, err = newOpenTime(v.Calendar, v.From, now)
	return g, err
}

// window returns the window that at lies in; the next one if at is closed time
// between two.
func (g grid) window(at Ticks) int64 { return floorDiv(g.open.since(at), g.width) }

// windows returns the number of the first window that can't be used.
func (g grid) windows() int64 {
	if g.open == nil {
		return floorDiv(MaxInstant, g.width) + 1
	}
	return floorDiv(g.open.total, g.width)
}

// offset returns how much of window k is over at the instant at.
func (g grid) offset(k int64, at Ticks) Ticks {
	return g.open.since(at) - Ticks(k)*g.width
}

// instant returns the instant at offset in window k.
func (g grid) instant(k int64, offset Ticks) Ticks {
	return g.open.instant(Ticks(k)*g.width + offset)
}

// bounds returns the first instant of window k and the one after its last.
func (g grid) bounds(k int64) (start, end Ticks) {
	return g.instant(k, 0), g.instant(k, g.width-1) + 1
}
