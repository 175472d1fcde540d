package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pool is the plainest BufferPool.
type pool struct{ sync.Pool }

func (p *pool) Get() []byte {
	if b, ok := p.Pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *pool) Put(b []byte) { p.Pool.Put(&b) }

// BenchmarkProxy compares this proxy behind the middleware with one rule to
// httputil's own with as many idle connections, without and with a pool of
// buffers, before the same upstream over loopback TCP. Caller and upstream run
// in this process, so cpu-us/op is that of all three.
func BenchmarkProxy(b *testing.B) {
	payload := make([]byte, 1024)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(payload) }))
	defer up.Close()
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	defer transport.CloseIdleConnections()
	rewrite := func(p *httputil.ProxyRequest) { p.SetURL(target); p.SetXForwarded() }
	bare := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: rewrite})
	defer bare.Close()
	pooled := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: rewrite, BufferPool: new(pool)})
	defer pooled.Close()
	limited := gated(b, up.URL, 1_000_000_000_000)

	for _, bench := range []struct{ name, url string }{{"bare", bare.URL}, {"pooled", pooled.URL}, {"limited", limited.URL}} {
		b.Run(bench.name, func(b *testing.B) { load(b, bench.url) })
	}
}

// load sends requests over 8 connections for each processor.
func load(b *testing.B, url string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	b.SetParallelism(8)
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			answer, err := client.Get(url + "/items/alex?page=1")
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				b.Errorf("status %d", answer.StatusCode)
				return
			}
		}
	})
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

// cpu returns what this process has used of the processors.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
