package main

import (
	"net/http"
	"net/url"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/store/sqlite"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/middleware"
	"github.com/stint-dev/stint/transport/proxy"
	"github.com/stint-dev/stint/transport/rest"
)

// stores are the databases that a configuration may name. A new one is a row.
var stores = []server.Store{
	{Scheme: "sqlite", Open: func(path string, _ *config.File) (limit.Store, error) { return sqlite.Open(path, nil) }},
}

// transports are the ways in. A new one is a row.
var transports = []server.Transport{
	{Name: "proxy", Address: (*config.File).ProxyAddress, Handler: newProxy},
	{Name: "api", Address: (*config.File).APIAddress, Handler: newAPI},
}

func newProxy(p *server.Process) (http.Handler, error) {
	dialect, err := httpanswer.ParseDialect(p.File.Headers)
	if err != nil {
		return nil, err
	}
	upstream, err := url.Parse(p.File.Proxy.Upstream)
	if err != nil {
		return nil, err
	}
	forward, err := proxy.New(proxy.Options{
		Upstream:     upstream,
		PreserveHost: p.File.Proxy.PreserveHost,
		Timeout:      time.Duration(p.File.Proxy.Timeout),
		TrustedProxy: p.Trusted,
		Logger:       p.Logger,
	})
	if err != nil {
		return nil, err
	}
	return middleware.New(p.Gate, &middleware.Options{Headers: dialect})(forward), nil
}

func newAPI(p *server.Process) (http.Handler, error) {
	dialect, err := httpanswer.ParseDialect(p.File.Headers)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	server.Health(mux, p)
	mux.Handle("/api/", rest.New(p.Gate, &rest.Options{Headers: dialect}))
	return mux, nil
}
