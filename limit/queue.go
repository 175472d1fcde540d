package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// MaxQueued is how many requests a Queue holds, over all keys.
const MaxQueued = 100_000

// Queue shapes traffic: it lets requests that are over their rate wait until
// it is their turn, key by key, first come, first served. The zero value is
// ready to use and safe for simultaneous use; it must not be copied.
//
// Only the head of a key's line tries; the others wait behind it, and a
// request that finds a line joins its end. A caller who goes away leaves the
// line at once, wherever it stands.
type Queue struct {
	mu    sync.Mutex
	lines map[string]*line
	held  int
}

// line is the requests that wait for one key, first come first. Its head sleeps
// until next, or tries.
type line struct {
	waiting []*waiter
	next    time.Time
}

type waiter struct{ head chan struct{} } // closed when the waiter becomes the head

// Turn says how a request may wait.
type Turn struct {
	// MaxWait is the longest that it waits. If its turn is expected later than
	// that, it is refused at once.
	MaxWait time.Duration
	// MaxQueue is how many requests of its key may wait, itself included.
	MaxQueue int
	// Pace is the time that each request before it in line is expected to take.
	Pace time.Duration
}

// Passage is how a request came through a Queue.
type Passage struct {
	// Admitted reports whether try has admitted it.
	Admitted bool
	// RetryAfter is, if it was not, after what time it could be.
	RetryAfter time.Duration
	// Waited is how long it stood in line.
	Waited time.Duration
}

// Wait calls try until it admits the request, waiting in key's line as long as
// turn allows. An error is try's or ctx's.
//
// try says whether the request is admitted and, if not, when to try again. One
// goroutine of a line calls it at a time, but for newcomers that find no line.
func (q *Queue) Wait(ctx context.Context, key string, turn Turn, try func() (retryAfter time.Duration, ok bool, err error)) (Passage, error) {
	began := time.Now()
	w, late := q.join(key, turn, nil)
	if w == nil && late == 0 {
		retry, ok, err := try()
		if ok || err != nil {
			return Passage{Admitted: ok}, err
		}
		w, late = q.join(key, turn, &retry)
	}
	if w == nil {
		return Passage{RetryAfter: late}, nil
	}
	defer q.leave(key, w)
	ok, retry, err := q.stand(ctx, key, w, turn, began, try)
	return Passage{Admitted: ok, RetryAfter: retry, Waited: time.Since(began)}, err
}

// stand waits in line as w until it is the head, and as the head until try
// admits it.
func (q *Queue) stand(ctx context.Context, key string, w *waiter, turn Turn, began time.Time, try func() (time.Duration, bool, error)) (ok bool, retry time.Duration, err error) {
	timer := time.NewTimer(turn.MaxWait - time.Since(began))
	defer timer.Stop()
	select {
	case <-w.head:
	case <-timer.C:
		return false, q.expected(key, w, turn), nil
	case <-ctx.Done():
		return false, 0, ctx.Err()
	}
	for {
		timer.Reset(time.Until(q.next(key)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false, 0, ctx.Err()
		}
		retry, ok, err = try()
		if ok || err != nil {
			return ok, 0, err
		}
		if retry > turn.MaxWait-time.Since(began) {
			return false, retry, nil
		}
		q.setNext(key, retry)
	}
}

// join puts a new waiter at the end of key's line. Without a line it does so
// only if retry says when the request, which has tried, may try again; without
// either it returns nothing. If there is no place, or the turn would come too
// late, it returns no waiter and when the turn would be.
func (q *Queue) join(key string, turn Turn, retry *time.Duration) (w *waiter, late time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ln := q.lines[key]
	if ln == nil && retry == nil {
		return nil, 0
	}
	var ahead int
	wait := time.Duration(0)
	if ln != nil {
		ahead = len(ln.waiting)
		wait = ln.wait(ahead, turn)
	} else {
		wait = *retry
	}
	if wait > turn.MaxWait || ahead >= turn.MaxQueue || q.held >= MaxQueued {
		return nil, max(wait, 1)
	}
	w = &waiter{head: make(chan struct{})}
	if ln == nil {
		ln = &line{next: time.Now().Add(wait)}
		if q.lines == nil {
			q.lines = make(map[string]*line)
		}
		q.lines[key] = ln
		close(w.head)
	}
	ln.waiting = append(ln.waiting, w)
	q.held++
	return w, 0
}

// leave takes w out of key's line. If w was the head, the next becomes it.
func (q *Queue) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ln := q.lines[key]
	at := slices.Index(ln.waiting, w)
	ln.waiting = slices.Delete(ln.waiting, at, at+1)
	q.held--
	switch {
	case len(ln.waiting) == 0:
		delete(q.lines, key)
	case at == 0:
		close(ln.waiting[0].head)
	}
}

func (q *Queue) next(key string) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[key].next
}

func (q *Queue) setNext(key string, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[key].next = time.Now().Add(after)
}

// expected returns when w's turn is expected.
func (q *Queue) expected(key string, w *waiter, turn Turn) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	ln := q.lines[key]
	return max(ln.wait(slices.Index(ln.waiting, w), turn), 1)
}

// wait returns how long a request with so many ahead of it is expected to wait.
func (ln *line) wait(ahead int, turn Turn) time.Duration {
	head := max(0, time.Until(ln.next))
	if turn.Pace > 0 && int64(ahead) > int64((1<<63-1-head)/turn.Pace) {
		return 1<<63 - 1
	}
	return head + time.Duration(ahead)*turn.Pace
}
