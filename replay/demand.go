package replay

import (
	"math"
	"slices"
	"sort"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// never is the quota of a key that no quota would have admitted.
const never = math.MaxInt64

// demands follows what the keys of one policy would have needed.
type demands struct {
	policy *limit.Policy
	burst  int64 // 0 if the burst is the quota
	keys   sample[*demand]
}

func newDemands(p *limit.Policy, burst *int64, maxKeys int) *demands {
	d := &demands{policy: p, keys: newSample[*demand](maxKeys)}
	if p.Algorithm == algo.GCRA && burst != nil {
		d.burst = *burst
	}
	return d
}

// add counts an arrival, whose cost the key then has spent: what is needed is
// what admits all of them.
func (d *demands) add(now algo.Ticks, key string, cost int64) {
	of, known := d.keys.kept[key]
	if !known {
		if !d.keys.takes(key) {
			return
		}
		of = &demand{}
		d.keys.put(key, of)
	}
	if d.policy.Algorithm == algo.GCRA {
		of.bucket.add(now, cost)
		of.quota = max(of.quota, of.bucket.needs(now, d.policy.Limit().Window, d.burst))
		of.bucket.forget(of.quota, d.policy.Limit().Window)
		return
	}
	of.count(d.policy.Algorithm, d.policy.Limit().Window, now, cost)
}

// quota returns the smallest quota that would have denied at most share of the
// keys, and how many of the keys followed it would have denied.
func (d *demands) quota(share float64) (quota int64, denied int) {
	all := make([]int64, 0, len(d.keys.kept))
	for _, of := range d.keys.kept {
		all = append(all, of.quota)
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	// Counts are compared as shares: share*len can lie just below a whole
	// number, as 0.29*100 does.
	spared := sort.Search(len(all)-1, func(n int) bool { return ratio(int64(n+1), int64(len(all))) > share })
	quota = max(1, all[len(all)-1-spared])
	for _, needed := range all {
		if needed > quota {
			denied++
		}
	}
	return quota, denied
}

// exact reports whether every key was followed, and without rounding.
func (d *demands) exact() bool {
	for _, of := range d.keys.kept {
		if of.bucket.merged {
			return false
		}
	}
	return d.keys.level == 0
}

// demand is what one key would have needed.
type demand struct {
	quota  int64 // the smallest that would have denied nothing so far
	bucket bucket
	state  algo.State // of an algorithm that is no bucket
}

// count has the algorithm itself find the quota. Its State is that of a limit
// so large that everything is admitted, and says what has been spent. Used,
// which is rounded, says where to look.
func (d *demand) count(a *algo.Algorithm, window, now algo.Ticks, cost int64) {
	if d.quota == never {
		return
	}
	before := d.state
	admits := func(quota int64) bool {
		_, v := a.Decide(algo.Limit{Quota: quota, Window: window}, before, now, cost)
		return v.OK
	}
	most := algo.Limit{Quota: a.MaxQuota, Window: window}
	after, v := a.Decide(most, before, now, cost)
	if !v.OK {
		d.quota, d.state = never, algo.State{}
		return
	}
	d.state = after
	if admits(d.quota) {
		return
	}
	used := int64(math.Ceil(a.Used(most, after, now)))
	for d.quota = max(d.quota+1, cost, used-1); !admits(d.quota); {
		d.quota++
	}
}
