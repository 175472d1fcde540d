package slotrest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

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
	err = read(body, func(r *reader) []field {
		return append(r.request(&b.Request), r.configName(&b.config))
	})
	return b, err
}

// request are the fields of an event that is to be booked.
func (r *reader) request(to *slots.Request) []field {
	return []field{
		{"eventId", true, r.text(func(text string) error {
			to.ID = text
			return slots.CheckID(text)
		})},
		{"requestedTime", true, r.instant(&to.At)},
		{"maxDelay", false, r.span(&to.MaxDelay)},
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
	err = read(body, func(r *reader) []field {
		return []field{
			r.configName(&b.config),
			{"requestedTime", false, r.instant(&all.At)},
			{"maxDelay", false, r.span(&all.MaxDelay)},
			{"events", true, func() (err error) {
				b.events, err = r.events()
				return err
			}},
		}
	})
	for i := range b.events {
		e := &b.events[i]
		if e.At == unset {
			e.At = all.At
		}
		if e.At == unset && e.err == nil {
			e.err = missing("requestedTime")
		}
		if e.MaxDelay == 0 {
			e.MaxDelay = all.MaxDelay
		}
	}
	return b, err
}

// events reads the events of a batch. What is wrong about one alone is its err.
func (r *reader) events() (es []event, err error) {
	n := 0
	err = r.array(func() error {
		if n++; n > MaxBatch {
			return errTooMany
		}
		e := event{Request: slots.Request{At: unset}}
		fields := r.request(&e.Request)
		fields[1].required = false // it may be said once for all
		if err := r.object(fields...); err != nil && !passed(err) {
			return err
		} else if err != nil {
			e.err = err
		}
		es = append(es, e)
		return nil
	})
	switch {
	case errors.Is(err, errTooMany):
		return nil, bad("more than %d events; send several batches", MaxBatch)
	case err == nil && n == 0:
		return nil, badValue("none; 1 to %d are needed", MaxBatch)
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
	err = read(body, func(r *reader) []field {
		return []field{
			r.configName(&q.config),
			{"requestedTime", true, r.instant(&q.At)},
			{"maxDelay", false, r.span(&q.MaxDelay)},
			{"count", false, r.whole(&q.count, 1, slots.MaxQuote)},
		}
	})
	return q, err
}

// decodeMove reads the body of PATCH /api/v1/slots/{eventId}.
func decodeMove(body []byte) (to slots.Request, err error) {
	err = read(body, func(r *reader) []field {
		return []field{
			field{"requestedTime", true, r.instant(&to.At)},
			{"maxDelay", false, r.span(&to.MaxDelay)},
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
	err = read(body, func(r *reader) []field {
		return []field{
			r.configName(&s.config),
			{"maxPerWindow", true, r.whole(&most, 1, plan.MaxMax)},
			{"windowSize", true, r.span(&s.Window)},
			{"mode", false, r.text(func(text string) error {
				s.Mode = plan.Mode(text)
				if s.Mode != plan.Jitter && s.Mode != plan.Spread {
					return fmt.Errorf("%q; jitter and spread are allowed", shorten(text))
				}
				return nil
			})},
			{"seed", false, r.whole(&seed, 0, maxSeed)},
			{"maxDelay", false, r.span(&s.MaxDelay)},
			{"horizon", false, r.span(&s.Horizon)},
			{"effectiveFrom", false, r.instant(&s.From)},
			{"delivery", false, func() error {
				return r.object(field{"url", true, r.text(func(text string) error {
					s.DeliverTo = text
					return slots.CheckURL(text)
				})})
			}},
			{"calendar", false, func() error {
				s.Calendar = new(plan.Calendar)
				return r.calendar(s.Calendar)
			}},
		}
	})
	s.Max, s.Seed = int(most), uint64(seed)
	return s, err
}

// maxHours is the longest text of opening hours. A week with a new opening in every
// other hour fits.
const maxHours = 1024

func (r *reader) calendar(c *plan.Calendar) error {
	return r.object(
		field{"zone", true, r.text(func(text string) error {
			c.Zone = text
			return nil
		})},
		field{"hours", false, r.text(func(text string) (err error) {
			if len(text) > maxHours {
				return fmt.Errorf("%d bytes; at most %d are allowed", len(text), maxHours)
			}
			c.Hours, err = plan.ParseHours(text)
			return unnamed(err, "hours: ")
		})},
		field{"holidays", false, func() error {
			return r.array(r.text(func(text string) error {
				d, err := plan.ParseDate(shorten(text))
				c.Holidays = append(c.Holidays, d)
				return unnamed(err, "date: ")
			}))
		}},
		field{"blackouts", false, func() error {
			return r.array(func() error {
				var b plan.Blackout
				err := r.object(field{"from", true, r.instant(&b.From)}, field{"to", true, r.instant(&b.To)})
				if err == nil && b.From >= b.To {
					err = badValue("it ends at %s and begins at %s; it must end later than that", formatTime(b.To), formatTime(b.From))
				}
				c.Blackouts = append(c.Blackouts, b)
				return err
			})
		}},
	)
}

// pausing is the body of POST /admin/rate-limit/pause.
type pausing struct {
	config string
	until  plan.Ticks // 0 ends a pause
}

func decodePausing(body []byte) (p pausing, err error) {
	p.config = defaultConfig
	err = read(body, func(r *reader) []field {
		return []field{
			r.configName(&p.config),
			{"until", true, func() error {
				token, err := r.token()
				if token == nil && err == nil {
					return nil // null
				}
				text, err := as[string](token, err, "a time, or null")
				if err != nil {
					return err
				}
				p.until, err = parseTime(text)
				return asBad("", err)
			}},
		}
	})
	return p, err
}

func (r *reader) configName(to *string) field {
	return field{"configName", false, r.text(func(text string) error {
		*to = text
		return slots.CheckName(text)
	})}
}

// instant reads a time.
func (r *reader) instant(to *plan.Ticks) func() error {
	return r.text(func(text string) (err error) {
		*to, err = parseTime(text)
		return err
	})
}

// span reads a duration.
func (r *reader) span(to *plan.Ticks) func() error {
	return r.text(func(text string) (err error) {
		*to, err = plan.ParseDuration(shorten(text))
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

// shorten keeps what a sender wrote from filling the answer.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// describe names a token as its sender wrote it.
func describe(token json.Token) string {
	switch t := token.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", shorten(t))
	case json.Number:
		return shorten(string(t))
	}
	return fmt.Sprint(token)
}
