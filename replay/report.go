package replay

import (
	"encoding/json"
	"io"
	"time"

	"github.com/stint-dev/stint/rules"
)

// Report is what a replay found. WriteTable writes it for people and WriteJSON
// for programs.
type Report struct {
	// Lines were read, empty ones not counted. Of them Malformed could not be,
	// and the first few Examples say where and why.
	Lines     int64    `json:"lines"`
	Malformed int64    `json:"malformed"`
	Examples  []string `json:"malformed_examples,omitempty"`
	// Requests were decided. OutOfOrder of them have a time before that of a
	// line above; they were taken as if they had come with it.
	Requests   int64 `json:"requests"`
	OutOfOrder int64 `json:"out_of_order"`
	// First and Last are the earliest and the latest time in the logs.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Denied is how many requests would have been denied, by one rule or
	// several, without those of rules in shadow.
	Denied int64 `json:"denied"`
	// Forgotten is how many live keys the store dropped for want of room. Each
	// may have been admitted more than its limit.
	Forgotten int64 `json:"keys_forgotten"`
	// Partial: the replay ended before the logs did.
	Partial bool `json:"partial"`
	// Took is how long the replay ran.
	Took time.Duration `json:"-"`
	// Rules are in the order of the Spec.
	Rules []RuleReport `json:"rules"`
}

// RuleReport is what a replay found about one rule.
type RuleReport struct {
	Name   string `json:"name"`
	Shadow bool   `json:"shadow"`
	// MaxWait is how long a request may wait its turn, or 0. Those that would
	// have waited are among the Denied.
	MaxWait rules.Duration `json:"max_wait"`
	// Requests are those that the rule decided. A rule in shadow decides only
	// what the others let through; exempt requests are not counted.
	Requests    int64   `json:"requests"`
	Denied      int64   `json:"denied"`
	DeniedShare float64 `json:"denied_share"`
	// KeysDenied is how many keys were denied at least once. KeysEstimated:
	// there were too many to count one by one.
	KeysDenied    int64 `json:"keys_denied"`
	KeysEstimated bool  `json:"keys_estimated"`
	// FirstHit and LastHit are when the rule denied, or nil.
	FirstHit *time.Time `json:"first_hit,omitempty"`
	LastHit  *time.Time `json:"last_hit,omitempty"`
	// Top are the keys that were denied most often.
	Top []KeyHits `json:"top_keys"`
	// Suggestion is nil unless asked for, and if the rule decided nothing.
	Suggestion *Suggestion `json:"suggestion,omitempty"`
}

// KeyHits is how often a key was denied.
type KeyHits struct {
	Key  string `json:"key"`
	Hits int64  `json:"denied"`
	// Error is by how much Hits may be too large. It is 0 unless very many
	// keys were denied.
	Error int64 `json:"error"`
}

// Suggestion is the smallest quota of a rule's first limit that would have
// denied at most a share of the keys, had the rule been alone; a rule in shadow
// is behind those that are enforced. Callers with other limits by an override
// are left out.
type Suggestion struct {
	Policy    string         `json:"policy"`
	Algorithm string         `json:"algorithm"`
	Window    rules.Duration `json:"window"`
	// Burst is that of the limit, or 0 if it is the quota.
	Burst int64 `json:"burst,omitempty"`
	// Now is the quota in force; Quota is the one suggested, or nil if the
	// algorithm has none that is large enough.
	Now   int64  `json:"quota"`
	Quota *int64 `json:"suggested_quota"`
	// Share is what was asked for. Of Keys followed, KeysDenied would still
	// have been denied.
	Share      float64 `json:"share"`
	Keys       int     `json:"keys"`
	KeysDenied int     `json:"keys_denied"`
	// SampledOf says that one key of so many was followed: 1 means all.
	SampledOf int64 `json:"sampled_of"`
	// Exact: a smaller quota would have denied more. Otherwise only a sample
	// was followed, or the quota may be a little larger than it had to be.
	Exact bool `json:"exact"`
}

// LinesPerSecond is how fast the replay was.
func (r *Report) LinesPerSecond() float64 {
	return float64(r.Lines) / max(r.Took.Seconds(), 1e-9)
}

// WriteJSON writes r as one JSON object. The names of its fields are stable.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*Report
		Seconds        float64 `json:"seconds"`
		LinesPerSecond float64 `json:"lines_per_second"`
	}{r, r.Took.Seconds(), r.LinesPerSecond()})
}
