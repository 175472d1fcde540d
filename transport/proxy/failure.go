package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/stint-dev/stint/transport/httpanswer"
)

// statusClientGone is what logs and metrics see of a request whose caller went
// away. No registered status says so; this is the one that nginx made common.
const statusClientGone = 499

// fail answers r when the upstream has not.
func (o *Options) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		w.WriteHeader(statusClientGone)
		return
	}
	p := httpanswer.Problem{Status: http.StatusBadGateway, Detail: "The service behind this proxy cannot be reached."}
	if timedOut(err) {
		p = httpanswer.Problem{Status: http.StatusGatewayTimeout, Detail: "The service behind this proxy did not answer in time."}
	}
	o.Logger.WarnContext(r.Context(), "upstream failed", "status", p.Status, "upstream", o.Upstream.Host, "error", err)
	p.Write(w, r)
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
