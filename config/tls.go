package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// TLS is how listeners prove who they are.
type TLS struct {
	Proxy ListenerTLS `yaml:"proxy" doc:"For listen.proxy."`
	API   ListenerTLS `yaml:"api" doc:"For listen.api."`
	GRPC  ListenerTLS `yaml:"grpc" doc:"For listen.grpc."`
}

// ListenerTLS is how one listener does; the zero value is in the clear.
type ListenerTLS struct {
	CertFile     string `yaml:"cert_file" required:"true" doc:"The certificate, PEM, with those that lead to its authority behind it. It is read again when it changes."`
	KeyFile      string `yaml:"key_file" required:"true" doc:"Its private key, PEM."`
	ClientCAFile string `yaml:"client_ca_file" doc:"Authorities, PEM: only clients with a certificate by one of them may connect. Default: anybody may."`
}

// NewTLS returns what a server answers with that has a certificate and its key, and asks
// clients for a certificate by an authority of clientCA, unless that is nil. All are PEM.
func NewTLS(cert, key, clientCA []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair}}
	if clientCA != nil {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(clientCA) {
			return nil, errors.New("there is no certificate in client_ca_file")
		}
	}
	return c, nil
}

// findCertificates finds the files of certificates, in dir if they are relative, and
// looks whether they are any good.
func (l *loading) findCertificates(dir string) {
	t := &l.file.TLS
	for _, listener := range []struct {
		name string
		tls  *ListenerTLS
	}{{"proxy", &t.Proxy}, {"api", &t.API}, {"grpc", &t.GRPC}} {
		at := "tls." + listener.name
		if *listener.tls == (ListenerTLS{}) || l.incomplete(at) {
			continue
		}
		files := make([][]byte, 3)
		whole := true
		for i, file := range []struct {
			field string
			path  *string
		}{{".cert_file", &listener.tls.CertFile}, {".key_file", &listener.tls.KeyFile}, {".client_ca_file", &listener.tls.ClientCAFile}} {
			if *file.path == "" {
				continue
			}
			if !filepath.IsAbs(*file.path) {
				*file.path = filepath.Join(dir, *file.path)
			}
			var err error
			if files[i], err = os.ReadFile(*file.path); err != nil {
				l.check(at+file.field, fmt.Errorf("%s cannot be read: %w", quote(*file.path), cause(err)))
				whole = false
			}
		}
		if whole {
			_, err := NewTLS(files[0], files[1], files[2])
			l.check(at, err)
		}
	}
}
