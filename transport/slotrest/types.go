package slotrest

import (
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Slot is an event and the time that it is booked for. Times are of RFC 3339, in UTC,
// to the microsecond.
type Slot struct {
	EventID string `json:"eventId"`
	// ScheduledTime is when it may happen, or might have, if it was cancelled.
	ScheduledTime string `json:"scheduledTime"`
	// DelayMS is how many whole milliseconds lie between RequestedTime and
	// ScheduledTime.
	DelayMS       int64  `json:"delayMs"`
	ConfigName    string `json:"configName"`
	RequestedTime string `json:"requestedTime"`
	BookedTime    string `json:"bookedTime"`
	CancelledTime string `json:"cancelledTime,omitempty"`
}

// Booking is the slot that an event got.
type Booking struct {
	Slot
	// Repeated: it has got it by an earlier request of its id. Conflict: that was
	// for another time.
	Repeated bool `json:"repeated"`
	Conflict bool `json:"conflict"`
}

// Batch answers a batch. Results are *BookedItem and *RefusedItem, in the order of
// the events, and Booked, Repeated and Refused how many of each there are.
type Batch struct {
	ConfigName string `json:"configName"`
	Booked     int    `json:"booked"`
	Repeated   int    `json:"repeated"`
	Refused    int    `json:"refused"`
	Results    []any  `json:"results"`
}

// BookedItem is an event of a batch that has a slot.
type BookedItem struct {
	Status int `json:"status"` // 200
	Booking
}

// RefusedItem is an event of a batch that got none. Its Status is that which it
// would have got alone.
type RefusedItem struct {
	Status int `json:"status"`
	Refusal
}

// Quote says what so many events would get now.
type Quote struct {
	ConfigName    string `json:"configName"`
	RequestedTime string `json:"requestedTime"`
	Count         int64  `json:"count"`
	// Granted is how many would get a slot. First, Median and Last are slots of
	// those; they are left out if there is none.
	Granted int64   `json:"granted"`
	First   *Quoted `json:"first,omitempty"`
	Median  *Quoted `json:"median,omitempty"`
	Last    *Quoted `json:"last,omitempty"`
	// Reason is why the others would get none, and EarliestTime when the earliest
	// slot would be for them.
	Reason       Reason `json:"reason,omitempty"`
	EarliestTime string `json:"earliestTime,omitempty"`
}

// Quoted is a slot that nobody has.
type Quoted struct {
	ScheduledTime string `json:"scheduledTime"`
	DelayMS       int64  `json:"delayMs"`
}

// Page lists slots in the order of their times.
type Page struct {
	ConfigName string `json:"configName"`
	Slots      []Slot `json:"slots"`
	// NextCursor asks for the next page; it is left out of the last one.
	NextCursor string `json:"nextCursor,omitempty"`
}

// Timeline says how many slots are booked from one Step to the next.
type Timeline struct {
	ConfigName string `json:"configName"`
	From       string `json:"from"`
	To         string `json:"to"`
	Step       string `json:"step"`
	Steps      []Step `json:"steps"`
}

// Step is a part of a Timeline.
type Step struct {
	From string `json:"from"`
	Used int64  `json:"used"`
	// Capacity is what the config allows there. More may be used if it was
	// lowered.
	Capacity int64 `json:"capacity"`
}

// Config is a version of a config. Spans are ISO 8601 durations.
type Config struct {
	// ConfigID counts the versions of a config, from 1.
	ConfigID     int    `json:"configId"`
	ConfigName   string `json:"configName"`
	MaxPerWindow int    `json:"maxPerWindow"`
	WindowSize   string `json:"windowSize"`
	// EffectiveFrom is since when it holds, or from when on it will.
	EffectiveFrom string `json:"effectiveFrom"`
	// IsActive: it is in force now.
	IsActive  bool      `json:"isActive"`
	CreatedAt string    `json:"createdAt"`
	Mode      plan.Mode `json:"mode"`
	Seed      uint64    `json:"seed"`
	MaxDelay  string    `json:"maxDelay,omitempty"`
	Horizon   string    `json:"horizon,omitempty"`
	Calendar  *Calendar `json:"calendar,omitempty"`
	Delivery  *Delivery `json:"delivery,omitempty"`
	// PausedUntil is the time before which nothing new is booked.
	PausedUntil string `json:"pausedUntil,omitempty"`
}

// Delivery says where events are delivered.
type Delivery struct {
	URL string `json:"url"`
}

// DeadLetters are events that could not be delivered, in the order in which that was
// given up.
type DeadLetters struct {
	ConfigName string       `json:"configName"`
	Dead       []DeadLetter `json:"dead"`
	// NextCursor asks for the next page; it is left out of the last one.
	NextCursor string `json:"nextCursor,omitempty"`
}

// DeadLetter is one of them.
type DeadLetter struct {
	EventID       string `json:"eventId"`
	ScheduledTime string `json:"scheduledTime"` // of the last attempt
	RequestedTime string `json:"requestedTime"`
	DeadSince     string `json:"deadSince"`
	Attempts      int    `json:"attempts"`
	// Status is what the receiver has answered last; left out if nothing.
	Status int    `json:"status,omitempty"`
	Error  string `json:"error"`
}

// Redriven says how many dead letters are tried anew.
type Redriven struct {
	ConfigName string `json:"configName"`
	Redriven   int    `json:"redriven"`
	// NotDead are those of the ids asked for that are no dead letters.
	NotDead []string `json:"notDead,omitempty"`
}

// Calendar is a plan.Calendar.
type Calendar struct {
	Zone      string     `json:"zone"`
	Hours     string     `json:"hours,omitempty"`
	Holidays  []string   `json:"holidays,omitempty"`
	Blackouts []Blackout `json:"blackouts,omitempty"`
}

// Blackout lasts from From until To.
type Blackout struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// History is all that a config has been, in the order in which it was made.
type History struct {
	ConfigName string   `json:"configName"`
	Versions   []Config `json:"versions"`
}

// Configs are those in force, in the order of their names.
type Configs struct {
	Configs    []Config `json:"configs"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// Flushed says that no cache keeps anything that is out of date.
type Flushed struct {
	Status string `json:"status"`
	Note   string `json:"note"`
}

func newSlot(config string, e slots.Event) Slot {
	s := Slot{
		EventID: e.ID, ScheduledTime: formatTime(e.At), DelayMS: milliseconds(e.Delay()),
		ConfigName: config, RequestedTime: formatTime(e.Requested), BookedTime: formatTime(e.Booked),
	}
	if e.Cancelled != 0 {
		s.CancelledTime = formatTime(e.Cancelled)
	}
	return s
}

// newConfigs returns all versions of a config.
func newConfigs(c *slots.Config, now plan.Ticks) []Config {
	active := inForce(c, now)
	configs := make([]Config, len(c.Versions))
	for i, v := range c.Versions {
		configs[i] = Config{
			ConfigID: i + 1, ConfigName: c.Name, MaxPerWindow: v.Max, WindowSize: plan.FormatDuration(v.Window),
			EffectiveFrom: formatTime(v.From), IsActive: i == active && v.From <= now, CreatedAt: formatTime(v.Made),
			Mode: v.Mode, Seed: v.Seed, MaxDelay: formatSpan(v.MaxDelay), Horizon: formatSpan(v.Horizon), Calendar: newCalendar(v.Calendar),
		}
		if v.Mode == "" {
			configs[i].Mode = plan.Jitter
		}
		if v.DeliverTo != "" {
			configs[i].Delivery = &Delivery{v.DeliverTo}
		}
		if c.PausedUntil > now {
			configs[i].PausedUntil = formatTime(c.PausedUntil)
		}
	}
	return configs
}

// inForce returns the index of the version that holds at an instant; that of the
// first if none does yet.
func inForce(c *slots.Config, at plan.Ticks) int {
	index := 0
	for i, v := range c.Versions {
		if v.From <= at {
			index = i
		}
	}
	return index
}

func newCalendar(c *plan.Calendar) *Calendar {
	if c == nil {
		return nil
	}
	cal := &Calendar{Zone: c.Zone, Hours: formatHours(c.Hours)}
	for _, d := range c.Holidays {
		cal.Holidays = append(cal.Holidays, d.String())
	}
	for _, b := range c.Blackouts {
		cal.Blackouts = append(cal.Blackouts, Blackout{formatTime(b.From), formatTime(b.To)})
	}
	return cal
}

// milliseconds rounds towards the past.
func milliseconds(t plan.Ticks) int64 { return time.UnixMicro(int64(t)).UnixMilli() }
