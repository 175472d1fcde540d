package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/stint-dev/stint/config"
)

// certificateEvery is how often the files of a certificate are looked at, at most. They
// are read when somebody connects, so that a renewed certificate needs no restart.
const certificateEvery = time.Second

// newTLS returns what a listener answers with that has certificates; nil if it has none.
func newTLS(name string, spec config.ListenerTLS, logger *slog.Logger) (*tls.Config, error) {
	if spec == (config.ListenerTLS{}) {
		return nil, nil
	}
	c := &certificates{name: name, spec: spec, logger: logger}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("tls.%s: %w", name, err)
	}
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil }}, nil
}

// certificates are those of one listener, as they were read last.
type certificates struct {
	name   string
	spec   config.ListenerTLS
	logger *slog.Logger

	mu     sync.Mutex
	looked time.Time
	files  [3][]byte // the certificate, its key, and whose clients' are believed
	refuse [3][]byte // files that are no good, and have been reported
	tls    *tls.Config
}

// current returns what holds now. Files that are no good are reported, and the last good
// ones stay.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificateEvery {
		return c.tls
	}
	if err := c.read(); err != nil {
		c.logger.Error("certificate refused; the last good one stays in force", "transport", c.name, "error", err)
	}
	return c.tls
}

// read reads the files, if they have changed. Of files that were refused before it says
// nothing again.
func (c *certificates) read() error {
	c.looked = time.Now()
	var files [3][]byte
	for i, path := range []string{c.spec.CertFile, c.spec.KeyFile, c.spec.ClientCAFile} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[i] = data
	}
	if equal(files, c.files) || equal(files, c.refuse) {
		return nil
	}
	next, err := config.NewTLS(files[0], files[1], files[2])
	if err != nil {
		c.refuse = files
		return err
	}
	if c.tls != nil {
		c.logger.Info("certificate in force", "transport", c.name, "until", next.Certificates[0].Leaf.NotAfter)
	}
	c.tls, c.files = next, files
	return nil
}

func equal(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}
