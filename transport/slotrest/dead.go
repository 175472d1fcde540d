package slotrest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/transport/strictjson"
)

// dead answers GET /api/v1/slots/dead.
func (a *api) dead(r *http.Request) (int, any, error) {
	q, err := query(r, "configName", "cursor", "limit")
	if err != nil {
		return 0, nil, err
	}
	config, err1 := q.config("configName")
	cursor, err2 := q.cursor()
	limit, err3 := q.limit()
	if err := cmp.Or(err1, err2, err3); err != nil {
		return 0, nil, err
	}
	var after *slots.Delivery
	if cursor != nil {
		after = &slots.Delivery{ID: cursor.ID, Dead: cursor.At}
	}
	dead, err := a.deadLetters(r.Context(), config, after, limit+1)
	if err != nil {
		return 0, nil, a.explain(r, err, config, "")
	}
	answer := DeadLetters{ConfigName: config, Dead: []DeadLetter{}}
	if len(dead) > limit {
		dead = dead[:limit]
		last := slots.Event{ID: dead[limit-1].ID}
		last.At = dead[limit-1].Dead
		answer.NextCursor = formatCursor(last)
	}
	for _, d := range dead {
		answer.Dead = append(answer.Dead, DeadLetter{
			EventID: d.ID, ScheduledTime: formatTime(d.Due), RequestedTime: formatTime(d.Requested), DeadSince: formatTime(d.Dead),
			Attempts: d.Attempts, Status: d.Status, Error: d.Error,
		})
	}
	return http.StatusOK, answer, nil
}

// deadLetters are those of a config; none if the ledger has no outbox.
func (a *api) deadLetters(ctx context.Context, config string, after *slots.Delivery, limit int) ([]slots.Delivery, error) {
	outbox, can := a.ledger.(slots.Outbox)
	if !can {
		_, _, err := a.ledger.Config(ctx, config)
		return nil, err
	}
	return outbox.Dead(ctx, config, after, limit)
}

// redrive answers POST /api/v1/slots/dead/redrive.
func (a *api) redrive(r *http.Request, body []byte) (int, any, error) {
	if _, err := query(r); err != nil {
		return 0, nil, err
	}
	what, err := decodeRedriving(body)
	if err != nil {
		return 0, nil, err
	}
	if what.ids == nil {
		dead, err := a.deadLetters(r.Context(), what.config, nil, MaxPage)
		if err != nil {
			return 0, nil, a.explain(r, err, what.config, "")
		}
		for _, d := range dead {
			what.ids = append(what.ids, d.ID)
		}
	}
	answer := Redriven{ConfigName: what.config}
	results, err := a.slots.Redrive(r.Context(), what.config, what.ids)
	if err != nil {
		return 0, nil, a.explain(r, err, what.config, "")
	}
	for i, result := range results {
		switch err := result.Err; {
		case err == nil:
			answer.Redriven++
		case errors.Is(err, slots.ErrLost), errors.Is(err, slots.ErrNoEvent), errors.Is(err, slots.ErrCancelled):
			answer.NotDead = append(answer.NotDead, what.ids[i])
		default:
			return 0, nil, a.explain(r, err, what.config, what.ids[i])
		}
	}
	return http.StatusOK, answer, nil
}

// redriving is the body of POST /api/v1/slots/dead/redrive. Without ids, those that
// died first are meant.
type redriving struct {
	config string
	ids    []string
}

func decodeRedriving(body []byte) (v redriving, err error) {
	v.config = defaultConfig
	err = read(body, func(r reader) []strictjson.Field {
		return []strictjson.Field{
			r.configName(&v.config),
			strictjson.Optional("eventIds", func() error {
				v.ids = []string{}
				return r.Array(r.Text(func(text string) error {
					if v.ids = append(v.ids, text); len(v.ids) > MaxPage {
						return fmt.Errorf("more than %d; send several requests", MaxPage)
					}
					return slots.CheckID(text)
				}))
			}),
		}
	})
	return v, err
}
