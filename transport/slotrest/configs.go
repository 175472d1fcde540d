package slotrest

import (
	"cmp"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/strictjson"
)

// config answers GET /admin/rate-limit/config.
func (a *api) config(r *http.Request) (int, any, error) {
	c, now, err := a.readConfig(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, newConfigs(&c, now)[inForce(&c, now)], nil
}

// history answers GET /admin/rate-limit/config/history.
func (a *api) history(r *http.Request) (int, any, error) {
	c, now, err := a.readConfig(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, History{c.Name, newConfigs(&c, now)}, nil
}

// readConfig returns the config that r names, and the ledger's clock.
func (a *api) readConfig(r *http.Request) (slots.Config, plan.Ticks, error) {
	q, err := query(r, "name")
	if err != nil {
		return slots.Config{}, 0, err
	}
	name, err := q.config("name")
	if err != nil {
		return slots.Config{}, 0, err
	}
	c, now, err := a.ledger.Config(r.Context(), name)
	if err != nil {
		return slots.Config{}, 0, a.explain(r, err, name, "")
	}
	return c, now, nil
}

// configure answers POST /admin/rate-limit/config.
func (a *api) configure(r *http.Request, body []byte) (int, any, error) {
	if _, err := query(r); err != nil {
		return 0, nil, err
	}
	s, err := decodeSetting(body)
	if err != nil {
		return 0, nil, err
	}
	if s.DeliverTo != "" && !a.delivers {
		return 0, nil, problem(http.StatusUnprocessableEntity, "delivery: this Stint delivers nothing; give it a secret to sign by, as slots.delivery.secret in its configuration")
	}
	c, err := a.slots.Configure(r.Context(), s.config, s.Version)
	if err != nil {
		return 0, nil, a.notAllowed(r, err, s.config)
	}
	made := len(c.Versions) - 1
	return http.StatusCreated, newConfigs(&c, c.Versions[made].Made)[made], nil
}

// notAllowed explains an error of Configure. If it is nothing that package slots
// returns elsewhere, it is what package plan says about the version.
func (a *api) notAllowed(r *http.Request, err error, config string) error {
	err = a.explain(r, err, config, "")
	if _, explained := errors.AsType[*Problem](err); explained {
		return err
	}
	for name, field := range map[string]string{
		"max: ": "maxPerWindow", "window: ": "windowSize", "from: ": "effectiveFrom", "mode: ": "mode",
		"deliver to: ": "delivery", "zone: ": "calendar.zone", "hours: ": "calendar.hours", "blackout: ": "calendar.blackouts", "calendar: ": "calendar",
	} {
		if text, is := strings.CutPrefix(err.Error(), name); is {
			return strictjson.As(field, errors.New(text))
		}
	}
	return err
}

// configs answers GET /admin/rate-limit/configs.
func (a *api) configs(r *http.Request) (int, any, error) {
	q, err := query(r, "cursor", "limit")
	if err != nil {
		return 0, nil, err
	}
	after, err1 := q.nameCursor()
	limit, err2 := q.limit()
	if err := cmp.Or(err1, err2); err != nil {
		return 0, nil, err
	}
	all, err := a.ledger.Configs(r.Context(), after, limit+1)
	if err != nil {
		return 0, nil, a.explain(r, err, "", "")
	}
	answer := Configs{Configs: []Config{}}
	if len(all) > limit {
		all = all[:limit]
		answer.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(all[limit-1].Name))
	}
	if len(all) == 0 {
		return http.StatusOK, answer, nil
	}
	_, now, err := a.ledger.Config(r.Context(), all[0].Name) // for its clock
	if err != nil {
		return 0, nil, a.explain(r, err, all[0].Name, "")
	}
	for i := range all {
		answer.Configs = append(answer.Configs, newConfigs(&all[i], now)[inForce(&all[i], now)])
	}
	return http.StatusOK, answer, nil
}

// pause answers POST /admin/rate-limit/pause.
func (a *api) pause(r *http.Request, body []byte) (int, any, error) {
	if _, err := query(r); err != nil {
		return 0, nil, err
	}
	p, err := decodePausing(body)
	if err != nil {
		return 0, nil, err
	}
	if _, err := a.slots.Pause(r.Context(), p.config, p.until); err != nil {
		return 0, nil, a.explain(r, err, p.config, "")
	}
	c, now, err := a.ledger.Config(r.Context(), p.config) // and its clock
	if err != nil {
		return 0, nil, a.explain(r, err, p.config, "")
	}
	return http.StatusOK, newConfigs(&c, now)[inForce(&c, now)], nil
}

// flushCache answers POST /admin/rate-limit/cache/flush.
func (a *api) flushCache(r *http.Request) (int, any, error) {
	if _, err := query(r); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, Flushed{
		Status: "cache flushed",
		Note:   "There was nothing to flush: the config is read with each booking, so a change is in force on every node from the next booking on.",
	}, nil
}
