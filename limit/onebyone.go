package limit

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// oneByOne takes the spends of j, whose keys the store cannot change together,
// each on its own, and gives back what was spent before a denial or an error.
// Until that is done others may find units spent that then are not, so a j that
// is suspected to be denied is looked at first.
func (b *backend) oneByOne(ctx context.Context, j *job, suspected bool) error {
	asked, forgotten := time.Now(), b.denials.mark()
	if suspected {
		look := b.passengers.get()
		look.set(j.spends, peek)
		if err := b.ride(ctx, look); err != nil {
			return err
		}
		copy(j.verdicts, look.verdicts)
		copy(j.before, look.before)
		j.now = look.now
		b.passengers.put(look)
		if _, denied := j.wait(); denied {
			b.remember(j, asked, forgotten)
			return nil
		}
	}
	errs := b.each(ctx, j.spends, func(i int, part *job) {
		j.verdicts[i], j.before[i], j.now = part.verdicts[0], part.before[0], max(j.now, part.now)
	})
	failed := cmp.Or(errs...)
	if _, denied := j.wait(); failed == nil && !denied {
		return nil
	}
	var back []Spend
	var at []int
	for i, s := range j.spends {
		if errs[i] == nil && j.verdicts[i].OK {
			back, at = append(back, Spend{s.Policy, s.Key, -s.Cost}), append(at, i)
		}
	}
	errs = b.each(context.WithoutCancel(ctx), back, func(i int, part *job) { j.verdicts[at[i]] = part.verdicts[0] })
	if failed = cmp.Or(failed, cmp.Or(errs...)); failed != nil {
		return failed
	}
	// What was given back here is no reason to doubt the denial.
	b.remember(j, asked, forgotten+uint64(len(back)))
	return nil
}

// remember remembers the denial of all of j, so that next time nothing need be
// spent to find out.
func (b *backend) remember(j *job, asked time.Time, forgotten uint64) {
	if b.denials.learn(j, asked, time.Since(asked), forgotten) {
		b.epochs.listen()
	}
}

// each takes spends side by side, each on its own, and calls done, one at a
// time, with each that did not fail.
func (b *backend) each(ctx context.Context, spends []Spend, done func(i int, part *job)) []error {
	parts, errs := make([]*passenger, len(spends)), make([]error, len(spends))
	var riding sync.WaitGroup
	for i := range spends {
		parts[i] = b.passengers.get()
		parts[i].set(spends[i:i+1], take)
		riding.Go(func() { errs[i] = b.ride(ctx, parts[i]) })
	}
	riding.Wait()
	for i, part := range parts {
		if errs[i] == nil {
			done(i, &part.job)
			b.passengers.put(part)
		}
	}
	return errs
}
