package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/transport/ruleadmin"
)

// apiFlags lead to the API of a process.
type apiFlags struct {
	API      string `default:"http://127.0.0.1:8080" env:"STINT_API" placeholder:"URL" help:"Where the API of a running stint is (default: ${default})."`
	CAFile   string `name:"ca-file" type:"existingfile" placeholder:"FILE" help:"The authorities that its certificate is by, PEM (default: the system's)."`
	CertFile string `name:"cert-file" type:"existingfile" placeholder:"FILE" help:"A client certificate to show, PEM."`
	KeyFile  string `name:"key-file" type:"existingfile" placeholder:"FILE" help:"Its private key, PEM."`
	Format   string `enum:"table,json" default:"table" help:"How to print: table (the default) or json, as the API has it."`
}

// apiAnswer is what the API answers.
type apiAnswer struct {
	body []byte
	etag string
}

// ask asks the API. Headers are pairs. An answer that is a problem is the error.
func (f apiFlags) ask(ctx context.Context, method, path, body string, headers ...string) (apiAnswer, error) {
	client, err := f.client()
	if err != nil {
		return apiAnswer{}, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(f.API, "/")+path, strings.NewReader(body))
	if err != nil {
		return apiAnswer{}, fmt.Errorf("--api: %w", err)
	}
	if token := strings.TrimSpace(os.Getenv("STINT_API_TOKEN")); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return apiAnswer{}, fmt.Errorf("%w; is a stint running there? --api or STINT_API says where", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return apiAnswer{}, err
	}
	if resp.StatusCode >= 300 {
		return apiAnswer{}, apiError(resp, text)
	}
	return apiAnswer{text, resp.Header.Get("ETag")}, nil
}

func (f apiFlags) client() (*http.Client, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("--ca-file: there is no certificate in it")
		}
	}
	if f.CertFile != "" || f.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file, --key-file: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: t, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for nobody else
	}, nil
}

// apiStatus is an answer that is a problem.
type apiStatus struct {
	status int
	text   string
}

func (e *apiStatus) Error() string { return e.text }

// apiError returns what an answer says that is a problem: all of it, if it is about
// the fields of a rule.
func apiError(resp *http.Response, body []byte) error {
	var p ruleadmin.Problem
	if json.Unmarshal(body, &p) != nil || p.Status == 0 {
		return &apiStatus{resp.StatusCode, fmt.Sprintf("the API answers %s, and nothing that a stint would say", resp.Status)}
	}
	if len(p.Errors) > 0 {
		var all server.ConfigError
		for _, e := range p.Errors {
			name := "rule"
			if e.Rule != "" {
				name = "rule " + e.Rule
			}
			all = append(all, config.Problem{File: name, Path: e.Field, Message: e.Message, Warning: e.Warning})
		}
		return all
	}
	text := p.Detail
	if p.Status == http.StatusUnauthorized {
		text += "; STINT_API_TOKEN has it for this command"
	}
	return &apiStatus{p.Status, text}
}

// isStatus reports whether the API has answered with a status.
func isStatus(err error, status int) bool {
	e, ok := errors.AsType[*apiStatus](err)
	return ok && e.status == status
}
