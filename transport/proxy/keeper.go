package proxy

import "net/http"

// keeper is a ResponseWriter whose header fields outlive informational
// answers. httputil empties the header after each of them (100 Continue, 103
// Early Hints), and with it what the handlers in front of the proxy have set
// for the final answer.
type keeper struct {
	http.ResponseWriter
	before  http.Header // the header when the proxy got it
	emptied bool
}

func (k *keeper) WriteHeader(status int) {
	informational := status < 200 && status != http.StatusSwitchingProtocols
	if k.emptied && !informational {
		h := k.Header()
		for name, values := range k.before {
			h[name] = append(values[:len(values):len(values)], h[name]...)
		}
	}
	k.emptied = informational
	k.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush and hijack.
func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }
