// Package limit decides how often a caller may do a thing.
//
// A [Policy] says how many units each window admits; a [Limiter] charges it,
// key by key, on the states in a [Store]:
//
//	limiter := limit.New(memory.New(nil), nil)
//	perUser := &limit.Policy{Name: "items", Quota: 10, Window: time.Minute}
//
//	d, err := limiter.Take(ctx, perUser, "alex", 1)
//	switch {
//	case err != nil:     // the store could not answer
//	case !d.Allowed:     // come back after d.RetryAfter
//	}
//
// A denial is a [Decision], never an error; an error means that nothing could
// be decided. How the units are counted is the policy's algorithm (package
// algo); where, is the store. Every algorithm works on every store.
package limit
