package slotrest

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/strictjson"
)

// book answers POST /api/v1/slots.
func (a *api) book(r *http.Request, body []byte) (int, any, error) {
	q, err := query(r, "onConflict")
	if err != nil {
		return 0, nil, err
	}
	conflicts, err := q.conflicts()
	if err != nil {
		return 0, nil, err
	}
	b, err := decodeBooking(body)
	if err != nil {
		return 0, nil, problem(http.StatusBadRequest, err.Error()).about(b.ID)
	}
	result, err := a.slots.Book(r.Context(), b.config, b.Request)
	if err != nil {
		return 0, nil, a.explain(r, err, b.config, b.ID)
	}
	if result.Conflict && conflicts {
		return 0, nil, conflict(b.Request, result.Event)
	}
	return http.StatusOK, newBooking(b.config, result), nil
}

func newBooking(config string, r slots.Result) Booking {
	return Booking{newSlot(config, r.Event), r.Repeated, r.Conflict}
}

// conflict says that the id of a request is booked for another time.
func conflict(r slots.Request, e slots.Event) *Problem {
	return refuse(http.StatusConflict, Refusal{Reason: Conflict, Message: fmt.Sprintf(
		"Event %q was booked for %s, and this asks for %s. Its slot, at %s, stays as it is; PATCH moves it.",
		r.ID, formatTime(e.Requested), formatTime(r.At), formatTime(e.At))}).about(r.ID)
}

// bookBatch answers POST /api/v1/slots/batch.
func (a *api) bookBatch(r *http.Request, body []byte) (int, any, error) {
	q, err := query(r, "onConflict")
	if err != nil {
		return 0, nil, err
	}
	conflicts, err := q.conflicts()
	if err != nil {
		return 0, nil, err
	}
	b, err := decodeBatch(body)
	if err != nil {
		return 0, nil, err
	}
	var requests []slots.Request
	for _, e := range b.events {
		if e.err == nil {
			requests = append(requests, e.Request)
		}
	}
	results, err := a.slots.BookAll(r.Context(), b.config, requests)
	if err != nil {
		return 0, nil, a.explain(r, err, b.config, "")
	}
	answer := Batch{ConfigName: b.config, Results: make([]any, len(b.events))}
	for i, e := range b.events {
		var result slots.Result
		if e.err == nil {
			result, results = results[0], results[1:]
		}
		var refused *Problem
		switch {
		case e.err != nil:
			refused = problem(http.StatusBadRequest, e.err.Error()).about(e.ID)
		case result.Err != nil:
			refused = a.problem(r, a.explain(r, result.Err, b.config, e.ID))
		case result.Conflict && conflicts:
			refused = conflict(e.Request, result.Event)
		}
		switch {
		case refused != nil:
			answer.Refused++
			answer.Results[i] = RefusedItem{refused.Status, refused.Refusal}
		case result.Repeated:
			answer.Repeated++
			answer.Results[i] = BookedItem{http.StatusOK, newBooking(b.config, result)}
		default:
			answer.Booked++
			answer.Results[i] = BookedItem{http.StatusOK, newBooking(b.config, result)}
		}
	}
	return http.StatusOK, answer, nil
}

// quote answers POST /api/v1/slots/quote.
func (a *api) quote(r *http.Request, body []byte) (int, any, error) {
	if _, err := query(r); err != nil {
		return 0, nil, err
	}
	q, err := decodeQuestion(body)
	if err != nil {
		return 0, nil, err
	}
	quote, err := a.slots.Quote(r.Context(), q.config, q.Request, int(q.count))
	if err != nil {
		return 0, nil, a.explain(r, err, q.config, "")
	}
	answer := Quote{ConfigName: q.config, RequestedTime: formatTime(q.At), Count: q.count, Granted: int64(quote.Granted)}
	if quote.Granted > 0 {
		quoted := func(delay plan.Ticks) *Quoted { return &Quoted{formatTime(q.At + delay), milliseconds(delay)} }
		answer.First, answer.Median, answer.Last = quoted(quote.First), quoted(quote.Median), quoted(quote.Last)
	}
	if quote.Refused != "" {
		answer.Reason = reason(quote.Refused)
	}
	if quote.Refused != "" && quote.Refused != plan.Never {
		answer.EarliestTime = formatTime(quote.Next.At)
	}
	return http.StatusOK, answer, nil
}

// event answers GET /api/v1/slots/{eventId}.
func (a *api) event(r *http.Request) (int, any, error) {
	config, id, err := named(r)
	if err != nil {
		return 0, nil, err
	}
	e, err := a.ledger.Event(r.Context(), config, id)
	if err != nil {
		return 0, nil, a.explain(r, err, config, id)
	}
	return http.StatusOK, newSlot(config, e), nil
}

// named returns the config and the event that r's URL names.
func named(r *http.Request) (config, id string, err error) {
	if id, err = eventID(r); err != nil {
		return "", "", err
	}
	q, err := query(r, "configName")
	if err != nil {
		return "", "", err
	}
	config, err = q.config("configName")
	return config, id, err
}

// cancel answers DELETE /api/v1/slots/{eventId}.
func (a *api) cancel(r *http.Request) (int, any, error) {
	config, id, err := named(r)
	if err != nil {
		return 0, nil, err
	}
	e, err := a.slots.Cancel(r.Context(), config, id)
	if err != nil {
		return 0, nil, a.explain(r, err, config, id)
	}
	return http.StatusOK, newSlot(config, e), nil
}

// reschedule answers PATCH /api/v1/slots/{eventId}.
func (a *api) reschedule(r *http.Request, body []byte) (int, any, error) {
	config, id, err := named(r)
	if err != nil {
		return 0, nil, err
	}
	to, err := decodeMove(body)
	if err != nil {
		return 0, nil, problem(http.StatusBadRequest, err.Error()).about(id)
	}
	to.ID = id
	e, err := a.slots.Reschedule(r.Context(), config, to)
	if err != nil {
		return 0, nil, a.explain(r, err, config, id)
	}
	return http.StatusOK, newSlot(config, e), nil
}

// list answers GET /api/v1/slots.
func (a *api) list(r *http.Request) (int, any, error) {
	q, err := query(r, "configName", "from", "to", "cursor", "limit")
	if err != nil {
		return 0, nil, err
	}
	config, err1 := q.config("configName")
	from, err2 := q.time("from", plan.MinInstant)
	to, err3 := q.time("to", plan.MaxInstant+1)
	after, err4 := q.cursor()
	limit, err5 := q.limit()
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return 0, nil, err
	}
	if from > to {
		return 0, nil, strictjson.Within("to", strictjson.Bad("%s is before from, %s", formatTime(to), formatTime(from)))
	}
	events, err := a.ledger.Events(r.Context(), config, slots.Query{From: from, Until: to, After: after, Limit: limit + 1})
	if err != nil {
		return 0, nil, a.explain(r, err, config, "")
	}
	page := Page{ConfigName: config, Slots: []Slot{}}
	if len(events) > limit {
		events = events[:limit]
		page.NextCursor = formatCursor(events[limit-1])
	}
	for _, e := range events {
		page.Slots = append(page.Slots, newSlot(config, e))
	}
	return http.StatusOK, page, nil
}

// timeline answers GET /api/v1/slots/timeline.
func (a *api) timeline(r *http.Request) (int, any, error) {
	q, err := query(r, "configName", "from", "to", "step")
	if err != nil {
		return 0, nil, err
	}
	config, err1 := q.config("configName")
	from, err2 := q.time("from", unset)
	to, err3 := q.time("to", unset)
	step, err4 := q.span("step")
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return 0, nil, err
	}
	switch {
	case from == unset:
		return 0, nil, strictjson.Missing("from")
	case to == unset:
		return 0, nil, strictjson.Missing("to")
	case to <= from || (to-from)%step != 0 || (to-from)/step > MaxSteps:
		return 0, nil, strictjson.Within("to", strictjson.Bad("it must lie 1 to %d steps of %s after from, without a rest", MaxSteps, plan.FormatDuration(step)))
	}
	n := int((to - from) / step)
	c, _, err := a.ledger.Config(r.Context(), config)
	if err != nil {
		return 0, nil, a.explain(r, err, config, "")
	}
	capacity, err := c.Capacity(from, step, n)
	if err != nil {
		return 0, nil, strictjson.As("from", err)
	}
	used, err := a.ledger.Count(r.Context(), config, from, step, n)
	if err != nil {
		return 0, nil, a.explain(r, err, config, "")
	}
	answer := Timeline{ConfigName: config, From: formatTime(from), To: formatTime(to), Step: plan.FormatDuration(step), Steps: make([]Step, n)}
	for i := range answer.Steps {
		answer.Steps[i] = Step{formatTime(from + plan.Ticks(i)*step), used[i], capacity[i]}
	}
	return http.StatusOK, answer, nil
}
