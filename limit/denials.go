package limit

import (
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// denials remembers, for keys that the store was asked for in vain, the State
// that it had. Until a reset or a refund units are only spent, so what that
// State denies the true one denies too, and need not be asked about. The State
// is judged by the policy as it is now: a rule that changes takes effect at once.
type denials struct {
	max int

	mu   sync.Mutex
	seen map[string]denial
}

type denial struct {
	state algo.State
	at    algo.Ticks    // the store's clock when it denied
	asked time.Time     // when it was asked, on ours
	took  time.Duration // how long its answer took
}

func newDenials(most int) *denials {
	return &denials{max: most, seen: make(map[string]denial)}
}

// ask reports whether j is denied, and by what verdicts. It knows if it
// remembers every key of j.
//
// The store read its clock at some time while it was asked. Taking that to be
// the moment of asking puts its present ahead of the truth, so nothing is
// denied that the store would admit; the wait allows for the other extreme.
func (d *denials) ask(j *job) bool {
	if j.verb != take {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	denied := false
	for i, s := range j.spends {
		seen, ok := d.seen[j.keys[i]]
		if !ok || s.Cost < 0 {
			return false
		}
		now := seen.at + ticks(time.Since(seen.asked))
		_, v := s.Policy.Decide(seen.state, now, s.Cost)
		if v.OK {
			_, v = s.Policy.Decide(seen.state, now, 0) // what remains without this spend
		} else {
			denied = true
			v.RetryAfter += ticks(seen.took)
		}
		v.ResetAfter += ticks(seen.took)
		j.verdicts[i] = v
	}
	return denied
}

// learn takes note of what an update said to j, which it was asked at asked.
// Updates are learnt from in the order in which they ran.
func (d *denials) learn(j *job, asked time.Time, took time.Duration) {
	if j.verb == peek {
		return // it has changed nothing
	}
	denied := j.verb == take && d.max > 0 && slices.ContainsFunc(j.verdicts, func(v algo.Verdict) bool { return !v.OK })
	d.mu.Lock()
	defer d.mu.Unlock()
	// Backwards, because a key that j has twice was last seen untouched the first time.
	for i, key := range slices.Backward(j.keys) {
		if !denied {
			delete(d.seen, key)
			continue
		}
		if len(d.seen) >= d.max {
			d.forgetOne()
		}
		d.seen[key] = denial{state: j.before[i].State, at: j.now, asked: asked, took: took}
	}
}

// forgetOne makes room: any key will do, it costs one more question.
func (d *denials) forgetOne() {
	for key := range d.seen {
		delete(d.seen, key)
		return
	}
}
