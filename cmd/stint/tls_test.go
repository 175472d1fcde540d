package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/server"
)

// Every listener answers with its certificate, and the one that asks for its callers'
// answers nobody who has none.
func TestListenersAreSecure(t *testing.T) {
	backend := httptest.NewServer(hello)
	t.Cleanup(backend.Close)
	cert, key := servertest.Certificate(t)
	pair := "{cert_file: " + cert + ", key_file: " + key
	file := filepath.Join(t.TempDir(), "stint.yaml")
	yaml := "version: 1\nlisten: {proxy: 127.0.0.1:0, api: 127.0.0.1:0, grpc: 127.0.0.1:0}\nproxy: {upstream: " + backend.URL + "}\n" +
		"tls:\n  proxy: " + pair + "}\n  api: " + pair + "}\n  grpc: " + pair + ", client_ca_file: " + cert + "}\n" + itemsRule
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	started, ended := make(chan map[string]net.Addr, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- server.Run(ctx, server.Options{Config: file, Log: io.Discard, Stores: stores, Transports: transports, Started: func(a map[string]net.Addr) { started <- a }})
	}()
	var at map[string]net.Addr
	select {
	case at = <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	for name, path := range map[string]string{"proxy": "/items/alex", "api": "/healthz"} {
		resp, err := client.Get("https://" + at[name].String() + path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			t.Errorf("%s: %v", name, resp)
		}
	}

	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, certificates := range [][]tls.Certificate{{own}, nil} {
		conn, err := grpc.NewClient(at["grpc"].String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: certificates})))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(bounded, &pb.RateLimitRequest{
			Domain:      "shop",
			Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "alex"}}}},
		})
		if allowed := err == nil && answer.OverallCode == pb.RateLimitResponse_OK; allowed != (certificates != nil) {
			t.Errorf("grpc, with %d certificates: %v, %v", len(certificates), answer, err)
		}
	}
}
