package httpanswer

import (
	"encoding/json"
	"net/http"
)

// Problem is the body of an answer that is not what the caller wanted: an
// application/problem+json of RFC 9457.
type Problem struct {
	// Type is a URI that names the kind of problem. It is left out, which
	// means about:blank, if Title says no more than the status.
	Type string `json:"type,omitempty"`
	// Title is the same for every problem of a Type. Defaults to the status' text.
	Title string `json:"title"`
	// Status is that of the answer.
	Status int `json:"status"`
	// Detail is for the person who has to do something about it.
	Detail string `json:"detail,omitempty"`
	// Instance is a reference to this one occurrence. Defaults to the path of
	// the request.
	Instance string `json:"instance,omitempty"`
	// ViolatedPolicies are the names of the policies that deny, an extension of
	// draft-ietf-httpapi-ratelimit-headers-10.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// ContentType is that of a Problem.
const ContentType = "application/problem+json"

// maxInstance is the longest path that is repeated to the caller.
const maxInstance = 1024

// Write answers r with p, which no cache may keep.
func (p Problem) Write(w http.ResponseWriter, r *http.Request) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if path := r.URL.EscapedPath(); p.Instance == "" && len(path) <= maxInstance {
		p.Instance = path
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}
