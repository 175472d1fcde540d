package limit

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// denials remembers, for keys that the store was asked for in vain, the State
// that it had. Until a reset or a refund units are only spent, so what that
// State denies the true one denies too, and need not be asked about. The State
// is judged by the policy as it is now: a rule that changes takes effect at once.
// Resets and refunds on other nodes are learnt of through epochs.
type denials struct {
	max int

	mu   sync.Mutex
	seen map[string]denial
	// forgotten grows when denials are forgotten or doubted because units were
	// given back. What an update under way at that moment has seen may be older.
	forgotten uint64
}

type denial struct {
	state algo.State
	at    algo.Ticks    // the store's clock when it denied
	asked time.Time     // when it was asked, on ours
	took  time.Duration // how long its answer took
	until time.Time     // when it is of no more use
	// doubted: units may have been given back since.
	doubted bool
}

func newDenials(most int) *denials {
	return &denials{max: most, seen: make(map[string]denial)}
}

// ask reports whether j is denied, and by what verdicts. It knows if it
// remembers every key of j. It is suspected to be denied if any is remembered.
//
// The store read its clock at some time while it was asked. Taking that to be
// the moment of asking puts its present ahead of the truth, so nothing is
// denied that the store would admit; the wait allows for the other extreme.
func (d *denials) ask(j *job) (denied, suspected bool) {
	if j.verb != take {
		return false, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := true
	for i, s := range j.spends {
		seen, ok := d.seen[j.keys[i]]
		suspected = suspected || ok
		if known = known && ok && !seen.doubted && s.Cost >= 0; !known {
			continue
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
	return known && denied, suspected
}

// mark returns what learn needs to know of the moment at which an update begins.
func (d *denials) mark() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.forgotten
}

// learn takes note of what an update that began at asked, when mark returned
// forgotten, said to j. It reports whether j has left a denial behind.
func (d *denials) learn(j *job, asked time.Time, took time.Duration, forgotten uint64) bool {
	if j.verb == peek {
		return false // it has changed nothing
	}
	wait, denied := j.wait()
	denied = denied && d.max > 0
	d.mu.Lock()
	defer d.mu.Unlock()
	if j.givesBack() {
		d.forgotten++
	}
	// Backwards, because a key that j has twice was last seen untouched the first time.
	for i, key := range slices.Backward(j.keys) {
		if !denied || d.forgotten != forgotten {
			delete(d.seen, key)
			continue
		}
		if len(d.seen) >= d.max {
			d.forgetOne()
		}
		d.seen[key] = denial{state: j.before[i].State, at: j.now, asked: asked, took: took, until: asked.Add(took + wait)}
	}
	return denied && d.forgotten == forgotten
}

// forgetOne makes room: any key will do, it costs one more question.
func (d *denials) forgetOne() {
	for key := range d.seen {
		delete(d.seen, key)
		return
	}
}

// doubt makes the denials of a shard's keys mere suspicions.
func (d *denials) doubt(shard int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgotten++
	for key, seen := range d.seen {
		if shardOf(key) == shard {
			seen.doubted = true
			d.seen[key] = seen
		}
	}
}

// age forgets what is of no more use.
func (d *denials) age() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.seen, func(_ string, seen denial) bool { return !now.Before(seen.until) })
}

func (d *denials) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.seen) == 0
}
