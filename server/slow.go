package server

import (
	"io"
	"net/http"
	"time"
)

// bodyPause is how long a client may send nothing of the body that it has announced.
// Longer than that it would only hold a connection, and perhaps a seat.
const bodyPause = 30 * time.Second

// slowest answers by h, and cuts off clients that pause for longer in their bodies.
func slowest(pause time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			// The server's own request keeps its body: of another type it would read
			// that itself, up to 256 KiB, as soon as an answer begins.
			body := &pacedBody{ReadCloser: r.Body, pause: pause, control: http.NewResponseController(w)}
			r = r.WithContext(r.Context())
			r.Body = body
		}
		h.ServeHTTP(w, r)
	})
}

// pacedBody is a body of which each read has its own deadline.
type pacedBody struct {
	io.ReadCloser
	pause   time.Duration
	control *http.ResponseController
	ended   bool
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if b.ended {
		return b.ReadCloser.Read(p)
	}
	b.control.SetReadDeadline(time.Now().Add(b.pause)) // without it, there is none
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// From here on the server reads only to notice that the client has gone.
		b.ended = true
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
