package slotrest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/strictjson"
)

// reader reads what the bodies of this API are made of.
type reader struct{ *strictjson.Reader }

func read(body []byte, fields func(r reader) []strictjson.Field) error {
	return strictjson.Read(body, func(r *strictjson.Reader) []strictjson.Field { return fields(reader{r}) })
}

// defaultConfig is the config of those who name none.
const defaultConfig = "default"

// booking is the body of POST /api/v1/slots.
type booking struct {
	config string
	slots.Request
}

// decodeBooking returns what it could read of a booking even if there is an error.
func decodeBooking(body []byte) (b booking, err error) {
	b.config = defaultConfig
	err = read(body, func(r reader) []strictjson.Field {
		return append(r.request(&b.Request, strictjson.Required), r.configName(&b.config))
	})
	return b, err
}

// request are the fields of an event that is to be booked. when says whether its time
// is needed: in a batch it may be said once for all.
func (r reader) request(to *slots.Request, when func(string, func() error) strictjson.Field) []strictjson.Field {
	return []strictjson.Field{
		strictjson.Required("eventId", r.Text(func(text string) error {
			to.ID = text
			return slots.CheckID(text)
		})),
		when("requestedTime", r.instant(&to.At)),
		strictjson.Optional("maxDelay", r.span(&to.MaxDelay)),
	}
}

// batch is the body of POST /api/v1/slots/batch.
type batch struct {
	config string
	events []event
}

// event is one of a batch. err is why it cannot be booked.
type event struct {
	slots.Request
	err error
}

// unset is a time that no caller can give.
const unset = plan.MinInstant - 1

func decodeBatch(body []byte) (b batch, err error) {
	b.config = defaultConfig
	all := slots.Request{At: unset} // what holds for events that don't say otherwise
	err = read(body, func(r reader) []strictjson.Field {
		return []strictjson.Field{
			r.configName(&b.config),
			strictjson.Optional("requestedTime", r.instant(&all.At)),
			strictjson.Optional("maxDelay", r.span(&all.MaxDelay)),
			strictjson.Required("events", func() (err error) {
				b.events, err = r.events()
				return err
			}),
		}
	})
	for i := range b.events {
		e := &b.events[i]
		if e.At == unset {
			e.At = all.At
		}
		if e.At == unset && e.err == nil {
			e.err = strictjson.Missing("requestedTime")
		}
		if e.MaxDelay == 0 {
			e.MaxDelay = all.MaxDelay
		}
	}
	return b, err
}

// events reads the events of a batch. What is wrong about one alone is its err.
func (r reader) events() (es []event, err error) {
	n := 0
	err = r.Array(func() error {
		if n++; n > MaxBatch {
			return errTooMany
		}
		e := event{Request: slots.Request{At: unset}}
		if err := r.Object(r.request(&e.Request, strictjson.Optional)...); err != nil && !strictjson.Passed(err) {
			return err
		} else if err != nil {
			e.err = err
		}
		es = append(es, e)
		return nil
	})
	switch {
	case errors.Is(err, errTooMany):
		return nil, strictjson.Bad("more than %d events; send several batches", MaxBatch)
	case err == nil && n == 0:
		return nil, strictjson.BadValue("none; 1 to %d are needed", MaxBatch)
	}
	return es, err
}

var errTooMany = errors.New("too many")

// question is the body of POST /api/v1/slots/quote.
type question struct {
	booking
	count int64
}

func decodeQuestion(body []byte) (q question, err error) {
	q.config, q.count = defaultConfig, 1
	err = read(body, func(r reader) []strictjson.Field {
		return []strictjson.Field{
			r.configName(&q.config),
			strictjson.Required("requestedTime", r.instant(&q.At)),
			strictjson.Optional("maxDelay", r.span(&q.MaxDelay)),
			strictjson.Optional("count", r.Whole(&q.count, 1, slots.MaxQuote)),
		}
	})
	return q, err
}

// decodeMove reads the body of PATCH /api/v1/slots/{eventId}.
func decodeMove(body []byte) (to slots.Request, err error) {
	err = read(body, func(r reader) []strictjson.Field {
		return []strictjson.Field{
			strictjson.Required("requestedTime", r.instant(&to.At)),
			strictjson.Optional("maxDelay", r.span(&to.MaxDelay)),
		}
	})
	return to, err
}

// setting is the body of POST /admin/rate-limit/config.
type setting struct {
	config string
	slots.Version
}

// maxSeed is the last whole number up to which every JSON reader holds all exactly.
const maxSeed = 1<<53 - 1

func decodeSetting(body []byte) (s setting, err error) {
	s.config, s.From = defaultConfig, plan.MinInstant
	var most, seed int64
	err = read(body, func(r reader) []strictjson.Field {
		return []strictjson.Field{
			r.configName(&s.config),
			strictjson.Required("maxPerWindow", r.Whole(&most, 1, plan.MaxMax)),
			strictjson.Required("windowSize", r.span(&s.Window)),
			strictjson.Optional("mode", r.Text(func(text string) error {
				s.Mode = plan.Mode(text)
				if s.Mode != plan.Jitter && s.Mode != plan.Spread {
					return fmt.Errorf("%q; jitter and spread are allowed", strictjson.Shorten(text))
				}
				return nil
			})),
			strictjson.Optional("seed", r.Whole(&seed, 0, maxSeed)),
			strictjson.Optional("maxDelay", r.span(&s.MaxDelay)),
			strictjson.Optional("horizon", r.span(&s.Horizon)),
			strictjson.Optional("effectiveFrom", r.instant(&s.From)),
			strictjson.Optional("delivery", func() error {
				return r.Object(strictjson.Required("url", r.Text(func(text string) error {
					s.DeliverTo = text
					return slots.CheckURL(text)
				})))
			}),
			strictjson.Optional("calendar", func() error {
				s.Calendar = new(plan.Calendar)
				return r.calendar(s.Calendar)
			}),
		}
	})
	s.Max, s.Seed = int(most), uint64(seed)
	return s, err
}

// maxHours is the longest text of opening hours. A week with a new opening in every
// other hour fits.
const maxHours = 1024

func (r reader) calendar(c *plan.Calendar) error {
	return r.Object(
		strictjson.Required("zone", r.Text(func(text string) error {
			c.Zone = text
			return nil
		})),
		strictjson.Optional("hours", r.Text(func(text string) (err error) {
			if len(text) > maxHours {
				return fmt.Errorf("%d bytes; at most %d are allowed", len(text), maxHours)
			}
			c.Hours, err = plan.ParseHours(text)
			return unnamed(err, "hours: ")
		})),
		strictjson.Optional("holidays", func() error {
			return r.Array(r.Text(func(text string) error {
				d, err := plan.ParseDate(strictjson.Shorten(text))
				c.Holidays = append(c.Holidays, d)
				return unnamed(err, "date: ")
			}))
		}),
		strictjson.Optional("blackouts", func() error {
			return r.Array(func() error {
				var b plan.Blackout
				err := r.Object(strictjson.Required("from", r.instant(&b.From)), strictjson.Required("to", r.instant(&b.To)))
				if err == nil && b.From >= b.To {
					err = strictjson.BadValue("it ends at %s and begins at %s; it must end later than that", formatTime(b.To), formatTime(b.From))
				}
				c.Blackouts = append(c.Blackouts, b)
				return err
			})
		}),
	)
}

// pausing is the body of POST /admin/rate-limit/pause.
type pausing struct {
	config string
	until  plan.Ticks // 0 ends a pause
}

func decodePausing(body []byte) (p pausing, err error) {
	p.config = defaultConfig
	err = read(body, func(r reader) []strictjson.Field {
		return []strictjson.Field{
			r.configName(&p.config),
			strictjson.Required("until", func() error {
				if r.Null() {
					return nil
				}
				return r.instant(&p.until)()
			}),
		}
	})
	return p, err
}

func (r reader) configName(to *string) strictjson.Field {
	return strictjson.Optional("configName", r.Text(func(text string) error {
		*to = text
		return slots.CheckName(text)
	}))
}

// instant reads a time.
func (r reader) instant(to *plan.Ticks) func() error {
	return r.Text(func(text string) (err error) {
		*to, err = parseTime(text)
		return err
	})
}

// span reads a duration.
func (r reader) span(to *plan.Ticks) func() error {
	return r.Text(func(text string) (err error) {
		*to, err = plan.ParseDuration(strictjson.Shorten(text))
		return unnamed(err, "duration: ")
	})
}

// unnamed takes the name off err that somebody else gave to a field.
func unnamed(err error, name string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), name))
}
