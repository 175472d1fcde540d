package slots

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stint-dev/stint/slots/plan"
)

// versionJSON is how ledgers keep a Version: instants in microseconds since 1970,
// spans in microseconds, days since 1970-01-01. What is 0 or empty may be missing.
type versionJSON struct {
	Made     plan.Ticks    `json:"made"`
	From     plan.Ticks    `json:"from"`
	Max      int           `json:"max"`
	Window   plan.Ticks    `json:"window"`
	Mode     plan.Mode     `json:"mode,omitempty"`
	Seed     uint64        `json:"seed,omitempty"`
	MaxDelay plan.Ticks    `json:"max_delay,omitempty"`
	Horizon  plan.Ticks    `json:"horizon,omitempty"`
	Deliver  string        `json:"deliver_to,omitempty"`
	Calendar *calendarJSON `json:"calendar,omitempty"`
}

type calendarJSON struct {
	Zone      string         `json:"zone"`
	Hours     []openingJSON  `json:"hours,omitempty"`
	Holidays  []plan.Date    `json:"holidays,omitempty"`
	Blackouts []blackoutJSON `json:"blackouts,omitempty"`
}

// openingJSON counts days from Sunday, which is 0.
type openingJSON struct {
	Day  time.Weekday `json:"day"`
	From plan.Ticks   `json:"from"`
	To   plan.Ticks   `json:"to"`
}

type blackoutJSON struct {
	From plan.Ticks `json:"from"`
	To   plan.Ticks `json:"to"`
}

// MarshalJSON writes v as a [Ledger] keeps it. UnmarshalJSON reads the same Version.
func (v Version) MarshalJSON() ([]byte, error) {
	j := versionJSON{v.Made, v.From, v.Max, v.Window, v.Mode, v.Seed, v.MaxDelay, v.Horizon, v.DeliverTo, nil}
	if c := v.Calendar; c != nil {
		j.Calendar = &calendarJSON{Zone: c.Zone, Holidays: c.Holidays}
		for _, o := range c.Hours {
			j.Calendar.Hours = append(j.Calendar.Hours, openingJSON(o))
		}
		for _, b := range c.Blackouts {
			j.Calendar.Blackouts = append(j.Calendar.Blackouts, blackoutJSON(b))
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote. A field that it does not know is an
// error: a newer Stint has put it there, and without it the slots may lie elsewhere.
func (v *Version) UnmarshalJSON(text []byte) error {
	var j versionJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return fmt.Errorf("the version of a config can't be read: %w", err)
	}
	*v = Version{
		Version: plan.Version{From: j.From, Max: j.Max, Window: j.Window, Mode: j.Mode, Seed: j.Seed},
		Made:    j.Made, MaxDelay: j.MaxDelay, Horizon: j.Horizon, DeliverTo: j.Deliver,
	}
	if c := j.Calendar; c != nil {
		v.Calendar = &plan.Calendar{Zone: c.Zone, Holidays: c.Holidays}
		for _, o := range c.Hours {
			v.Calendar.Hours = append(v.Calendar.Hours, plan.Opening(o))
		}
		for _, b := range c.Blackouts {
			v.Calendar.Blackouts = append(v.Calendar.Blackouts, plan.Blackout(b))
		}
	}
	return nil
}

// Equal reports whether v and o say the same, and were made at the same instant.
func (v Version) Equal(o Version) bool {
	if !v.Calendar.Equal(o.Calendar) {
		return false
	}
	v.Calendar, o.Calendar = nil, nil
	return v == o
}
