package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/server"
)

// secure is a process whose API has a certificate, and asks its callers for one if ca.
type secure struct {
	t         *testing.T
	cert, key string // files
	address   string
	log       *buffer
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func startSecure(t *testing.T, clientCA string) *secure {
	dir := t.TempDir()
	s := &secure{t: t, cert: filepath.Join(dir, "api.pem"), key: filepath.Join(dir, "api.key"), log: &buffer{}}
	s.renew()
	yaml := "listen: {api: 127.0.0.1:0}\ntls: {api: {cert_file: " + s.cert + ", key_file: " + s.key
	if clientCA != "" {
		yaml += ", client_ca_file: " + clientCA
	}
	o := options(t, yaml+"}}\n")
	o.Log = s.log
	o.Transports[0].TLS = func(f *config.File) config.ListenerTLS { return f.TLS.API }
	address := make(chan string, 1)
	o.Started = func(a map[string]net.Addr) { address <- a["api"].String() }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case s.address = <-address:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return s
}

// renew puts a new certificate in place.
func (s *secure) renew() {
	s.t.Helper()
	cert, key := servertest.Certificate(s.t)
	for from, to := range map[string]string{cert: s.cert, key: s.key} {
		data, err := os.ReadFile(from)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// get asks over a new connection, and trusts the certificate that is in the file now.
func (s *secure) get(own ...tls.Certificate) (proto string, err error) {
	pem, err := os.ReadFile(s.cert)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own},
	}}
	resp, err := client.Get("https://" + s.address + "/healthz")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.Proto, nil
}

// eventually asks until it is answered.
func (s *secure) eventually() {
	s.t.Helper()
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if _, err = s.get(); err == nil {
			return
		}
	}
	s.t.Fatal(err)
}

// A renewed certificate is answered with, without a restart; one that is no good is
// reported, and the last good one stays.
func TestTLS(t *testing.T) {
	s := startSecure(t, "")
	if proto, err := s.get(); err != nil || proto != "HTTP/2.0" {
		t.Fatalf("%s, %v", proto, err)
	}
	if resp, err := http.Get("http://" + s.address + "/healthz"); err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Errorf("in the clear: %v", resp)
	}
	if conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	s.renew()
	s.eventually()

	good, err := os.ReadFile(s.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.key, []byte("half a ke"), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(s.log.String(), "certificate refused; the last good one stays in force"); time.Sleep(50 * time.Millisecond) {
		if _, err := s.get(); err != nil {
			t.Fatalf("with a file that is no good: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatal("that a file is no good is not reported")
		}
	}
	if err := os.WriteFile(s.key, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s.eventually()
}

// Only clients of the authority may connect, where one is given.
func TestClientCertificates(t *testing.T) {
	cert, key := servertest.Certificate(t)
	s := startSecure(t, cert)
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.get(own); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if _, err := s.get(); err == nil {
		t.Error("without a certificate there is an answer")
	}
	otherCert, otherKey := servertest.Certificate(t)
	other, err := tls.LoadX509KeyPair(otherCert, otherKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.get(other); err == nil {
		t.Error("with a certificate of somebody else there is an answer")
	}
}

// A client that pauses in its body is cut off, and one that is slow is not.
func TestCallersThatPause(t *testing.T) {
	read := make(chan string, 1)
	h := server.Slowest(200*time.Millisecond, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		read <- fmt.Sprintf("%s %v", body, err != nil)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	defer s.Close()
	for what, c := range map[string]struct {
		pieces []string
		pause  time.Duration
		want   string
	}{
		"slow":   {[]string{"a", "b", "c", "d", "e"}, 50 * time.Millisecond, "abcde false"},
		"pauses": {[]string{"a", "bcde"}, 2 * time.Second, "a true"},
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
		go func() {
			for i, piece := range c.pieces {
				if i > 0 {
					time.Sleep(c.pause)
				}
				if _, err := io.WriteString(conn, piece); err != nil {
					return
				}
			}
		}()
		select {
		case got := <-read:
			if got != c.want {
				t.Errorf("%s: %q, want %q", what, got, c.want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the handler still reads", what)
		}
		conn.Close()
	}
}
