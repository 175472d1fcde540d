package rest

import "net/http"

// Ask is the body of POST /api/v1/decisions: may all of this happen now?
type Ask struct {
	// Descriptors are decided together: all of them are charged, or none.
	// 1 to MaxDescriptors.
	Descriptors []Descriptor `json:"descriptors"`
	// Cost is what each rule charges for each descriptor. Defaults to the
	// rule's own cost.
	Cost int64 `json:"cost,omitempty"`
	// Peek decides without charging and without waiting in line.
	Peek bool `json:"peek,omitempty"`
}

// Descriptor says what a rule may match and count by. All of it is optional.
type Descriptor struct {
	Method string `json:"method,omitempty"`
	Host   string `json:"host,omitempty"`
	// Path is percent-encoded, as in a request.
	Path    string            `json:"path,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Attributes are what identity would find out about a caller, such as
	// user or ip. They are believed.
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Bounds of an Ask.
const (
	MaxBody        = 1 << 20 // bytes
	MaxDescriptors = 100
	MaxPairs       = 64                  // headers of a descriptor, and attributes
	MaxName        = 64                  // bytes in the name of a header or an attribute
	MaxValue       = 8 << 10             // bytes in any value
	MaxCost        = 999_999_999_999_999 // what every JSON reader holds exactly
)

// Answer is what was decided. A denial is an Answer, too.
type Answer struct {
	Allowed bool `json:"allowed"`
	// Status is the HTTP status to refuse with, 429 or 503; 0 if Allowed.
	Status int `json:"status"`
	// RetryAfterMS is 0 if Allowed.
	RetryAfterMS int64 `json:"retryAfterMs"`
	// Decisions are those of every policy that was asked.
	Decisions []Decision `json:"decisions"`
}

// Decision is what one policy said about one descriptor. Spans are in
// milliseconds, rounded up.
type Decision struct {
	// Descriptor is an index in Ask.Descriptors.
	Descriptor int    `json:"descriptor"`
	Rule       string `json:"rule"`
	Policy     string `json:"policy"`
	Allowed    bool   `json:"allowed"`
	// Shadow: the rule denies nothing, whatever Allowed says.
	Shadow       bool  `json:"shadow"`
	Limit        int64 `json:"limit"`
	Remaining    int64 `json:"remaining"`
	RetryAfterMS int64 `json:"retryAfterMs"`
	ResetAfterMS int64 `json:"resetAfterMs"`
	// Degraded: decided without the store that the policy is counted in.
	Degraded bool `json:"degraded"`
}

// descriptor is a Descriptor as rules look at it.
type descriptor struct{ *Descriptor }

func (d descriptor) Method() string { return d.Descriptor.Method }
func (d descriptor) Host() string   { return d.Descriptor.Host }
func (d descriptor) Path() string   { return d.Descriptor.Path }

func (d descriptor) Header(name string) string {
	return d.Headers[http.CanonicalHeaderKey(name)]
}

func (d descriptor) Attribute(name string) (string, bool) {
	value, ok := d.Attributes[name]
	return value, ok
}
