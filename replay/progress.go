package replay

import "time"

// reporter calls Options.Progress now and then.
type reporter struct {
	call        func(Progress)
	began, last time.Time
}

const progressEvery = 100 * time.Millisecond

func newReporter(call func(Progress)) *reporter {
	now := time.Now()
	return &reporter{call: call, began: now, last: now}
}

func (r *reporter) took() time.Duration { return time.Since(r.began) }

func (r *reporter) tell(lines int64, in *input) {
	if r.call == nil {
		return
	}
	now := time.Now()
	if now.Sub(r.last) < progressEvery {
		return
	}
	r.last = now
	r.call(Progress{Lines: lines, Bytes: in.read, Total: in.total, Took: now.Sub(r.began)})
}

// Part is how much of the logs has been read, from 0 to 1, or 0 if that is not known.
func (p Progress) Part() float64 {
	if p.Total == 0 {
		return 0
	}
	return min(1, float64(p.Bytes)/float64(p.Total))
}
