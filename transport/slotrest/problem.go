package slotrest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/strictjson"
)

// Problem is the body of an answer that is not what the caller wanted: problem
// details of RFC 9457, with what a Refusal says.
type Problem struct {
	httpanswer.Problem
	Refusal
}

// Refusal says why there is no slot, or nothing else either.
type Refusal struct {
	// EventID is left out if there is none, or if it is not allowed.
	EventID string `json:"eventId,omitempty"`
	// Message is for the person who has to do something about it.
	Message string `json:"error"`
	Reason  Reason `json:"reason,omitempty"`
	// WindowsSearched is how many windows lie between the time that was asked for
	// and EarliestTime, when the earliest free slot is. They are left out unless
	// Reason is CapacityExhausted or Horizon.
	WindowsSearched *int64 `json:"windowsSearched,omitempty"`
	EarliestTime    string `json:"earliestTime,omitempty"`
	// RetryAfterMS is after how many milliseconds, rounded up, the same request
	// may succeed; left out if it is not known to.
	RetryAfterMS int64 `json:"retryAfterMs,omitempty"`
}

// Reason says to a program why it got no answer.
type Reason string

const (
	// CapacityExhausted: the earliest free slot lies later than the maximum
	// delay, of the request or of the config, allows.
	CapacityExhausted Reason = "CAPACITY_EXHAUSTED"
	// Horizon: it lies farther ahead than the config allows.
	Horizon Reason = "HORIZON"
	// Never: there is none at all, at that time or later.
	Never Reason = "NEVER"
	// StoreUnavailable: the database did not answer. What was asked may have been
	// done; the same request, made again, does it once and says so.
	StoreUnavailable Reason = "STORE_UNAVAILABLE"
	// Overloaded: too many wait for the database. Nothing was done.
	Overloaded Reason = "OVERLOADED"
	// UnknownConfig, UnknownEvent: there is none of that name, or id.
	UnknownConfig Reason = "UNKNOWN_CONFIG"
	UnknownEvent  Reason = "UNKNOWN_EVENT"
	// Cancelled: the event was, and its id cannot be booked again.
	Cancelled Reason = "CANCELLED"
	// Conflict: the id is booked, for another time, and the caller wanted that to
	// be an error.
	Conflict Reason = "CONFLICT"
)

// problem returns a Problem that is said in words alone.
func problem(status int, detail string) *Problem {
	return refuse(status, Refusal{Message: detail})
}

func refuse(status int, r Refusal) *Problem {
	return &Problem{httpanswer.Problem{Title: http.StatusText(status), Status: status, Detail: r.Message}, r}
}

func (p *Problem) Error() string { return p.Detail }

// about returns p, as that of an event. An id that is not allowed is not repeated.
func (p *Problem) about(event string) *Problem {
	if slots.CheckID(event) == nil {
		p.EventID = event
	}
	return p
}

// maxInstance is the longest path that is repeated to the caller.
const maxInstance = 1024

// write answers r with p, which no cache may keep.
func (p *Problem) write(w http.ResponseWriter, r *http.Request) {
	if path := r.URL.EscapedPath(); len(path) <= maxInstance {
		p.Instance = path
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	h := w.Header()
	if p.RetryAfterMS > 0 {
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfterMS+999)/1000, 10))
	}
	h.Set("Content-Type", httpanswer.ContentType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// problem says what is wrong if err is what a handler returns.
func (a *api) problem(r *http.Request, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*strictjson.Error](err); ok {
		return problem(http.StatusBadRequest, e.Error())
	}
	a.logger.ErrorContext(r.Context(), "a request about slots failed", "method", r.Method, "path", strictjson.Shorten(r.URL.EscapedPath()), "error", err)
	return problem(http.StatusInternalServerError, "Stint could not do this; its log says why.")
}

// explain makes a Problem of what package slots returned about an event of a config.
// What it does not know it returns as it is.
func (a *api) explain(r *http.Request, err error, config, event string) error {
	if e, ok := errors.AsType[*slots.Refused](err); ok {
		return refused(e).about(event)
	}
	fault, isFault := errors.AsType[*slots.LedgerError](err)
	switch {
	case errors.Is(err, slots.ErrNoConfig):
		return refuse(http.StatusNotFound, Refusal{Reason: UnknownConfig, Message: fmt.Sprintf("There is no config %q.", config)}).about(event)
	case errors.Is(err, slots.ErrNoEvent):
		return refuse(http.StatusNotFound, Refusal{Reason: UnknownEvent, Message: fmt.Sprintf("Config %q has no event %q.", config, event)}).about(event)
	case errors.Is(err, slots.ErrCancelled):
		return refuse(http.StatusGone, Refusal{Reason: Cancelled, Message: fmt.Sprintf("Event %q was cancelled, and its id cannot be booked again.", event)}).about(event)
	case errors.Is(err, slots.ErrBusy):
		return refuse(http.StatusServiceUnavailable, Refusal{Reason: Overloaded, RetryAfterMS: 1000, Message: "Too many events wait to be booked. Nothing was done; try again in 1s."}).about(event)
	case isFault, errors.Is(err, slots.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		a.warn(r, err)
		done := "It may have been done, and is not done twice"
		if isFault && !fault.Sent || errors.Is(err, slots.ErrClosed) {
			done = "Nothing was done"
		}
		return refuse(http.StatusServiceUnavailable, Refusal{Reason: StoreUnavailable, RetryAfterMS: 1000, Message: "The store did not answer. " + done + "; try again in 1s."}).about(event)
	}
	return err
}

// warn logs a fault of the store, once a second at most: all requests have it together.
// That a caller has gone away is none.
func (a *api) warn(r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	last, now := a.warned.Load(), time.Now().Unix()
	if last != now && a.warned.CompareAndSwap(last, now) {
		a.logger.WarnContext(r.Context(), "the store did not answer a request about slots", "method", r.Method, "path", strictjson.Shorten(r.URL.EscapedPath()), "error", err)
	}
}

// refused says why a request gets no slot.
func refused(e *slots.Refused) *Problem {
	p := refuse(http.StatusServiceUnavailable, Refusal{Reason: reason(e.Reason), Message: fmt.Sprintf("Nothing was booked: %v.", e)})
	if p.Reason != Never {
		p.WindowsSearched, p.EarliestTime = &e.Windows, formatTime(e.At)
		p.RetryAfterMS = max(1, int64((e.Wait+plan.Millisecond-1)/plan.Millisecond))
	}
	return p
}

// reason says why there is no slot.
func reason(r plan.Refusal) Reason {
	switch r {
	case plan.TooLate:
		return CapacityExhausted
	case plan.TooFar:
		return Horizon
	}
	return Never
}
