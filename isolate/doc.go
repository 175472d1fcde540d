// Package isolate decides how much at once: it gives each tenant its share of a number
// of seats, so that one cannot slow the others.
//
// Whoever wants to do something takes a seat, waits for one in its tenant's own queue,
// or is refused:
//
//	seats, err := isolate.New(isolate.Config{Seats: 32})
//	...
//	seat, err := seats.Acquire(ctx, "acme", 1)
//	if r, ok := errors.AsType[*isolate.Rejection](err); ok {
//		// 503, or 429; come back after r.RetryAfter
//	} else if err != nil {
//		// ctx has ended, or the request is not allowed
//	}
//	defer seat.Release()
//
// A seat counts until it is released, whatever its caller has been told meanwhile:
// what runs is never stopped, and never forgotten while it runs. [Isolator.Do] answers
// in time and keeps the seat until the work is really over.
//
// Each Isolator has its own seats. The cap of a tenant whose plan is Shared is that of
// several of them together, on as many nodes: a [Leaser] keeps which node may use how
// much of it.
//
// Who is next, what is held for whom, and why that is fair, is worked out by package
// isolate/fair.
package isolate
