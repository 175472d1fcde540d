package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/slots/deliver"
	"github.com/stint-dev/stint/store/mongodb"
	"github.com/stint-dev/stint/store/mysql"
	"github.com/stint-dev/stint/store/postgres"
	"github.com/stint-dev/stint/store/redis"
	"github.com/stint-dev/stint/store/sqlite"
	"github.com/stint-dev/stint/transport/access"
	"github.com/stint-dev/stint/transport/forwardauth"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/middleware"
	"github.com/stint-dev/stint/transport/proxy"
	"github.com/stint-dev/stint/transport/rest"
	"github.com/stint-dev/stint/transport/rls"
	"github.com/stint-dev/stint/transport/ruleadmin"
	"github.com/stint-dev/stint/transport/seatrest"
	"github.com/stint-dev/stint/transport/slotrest"
	"github.com/stint-dev/stint/transport/webhook"
)

// stores are the databases that a configuration may name. A new one is a row.
var stores = []server.Store{
	{Schemes: []string{"sqlite"}, Open: openSQLite},
	{Schemes: []string{"postgres", "postgresql"}, Open: openPostgres, Migrate: postgres.Migrate, Script: postgres.Script},
	{Schemes: []string{"mysql", "mariadb"}, Open: openMySQL, Migrate: mysql.Migrate, Script: mysql.Script},
	{Schemes: []string{"mongodb", "mongodb+srv"}, Open: openMongoDB, Migrate: mongodb.Migrate, Script: mongodb.Script},
	{Schemes: []string{"redis", "rediss"}, Open: openRedis, Migrate: redis.Migrate, Script: redis.Script},
}

// transports are the ways in. A new one is a row.
var transports = []server.Transport{
	{Name: "proxy", Address: (*config.File).ProxyAddress, TLS: func(f *config.File) config.ListenerTLS { return f.TLS.Proxy }, Handler: newProxy},
	{Name: "api", Address: (*config.File).APIAddress, TLS: func(f *config.File) config.ListenerTLS { return f.TLS.API }, Handler: newAPI},
	{Name: "grpc", Address: (*config.File).GRPCAddress, TLS: func(f *config.File) config.ListenerTLS { return f.TLS.GRPC }, Service: newGRPC},
}

func openSQLite(_ context.Context, url string, logger *slog.Logger) (limit.Store, error) {
	return sqlite.Open(strings.TrimPrefix(url, "sqlite:"), &sqlite.Options{Logger: logger})
}

func openPostgres(ctx context.Context, url string, logger *slog.Logger) (limit.Store, error) {
	return postgres.Open(ctx, url, &postgres.Options{Logger: logger})
}

func openMySQL(ctx context.Context, url string, logger *slog.Logger) (limit.Store, error) {
	return mysql.Open(ctx, url, &mysql.Options{Logger: logger})
}

func openMongoDB(ctx context.Context, url string, _ *slog.Logger) (limit.Store, error) {
	return mongodb.Open(ctx, url, nil)
}

func openRedis(ctx context.Context, url string, logger *slog.Logger) (limit.Store, error) {
	return redis.Open(ctx, url, &redis.Options{Logger: logger})
}

// newSender makes what tells receivers that a slot has come.
func newSender(f *config.File) (deliver.Sender, error) {
	secrets, err := webhook.ParseSecrets(f.Slots.Delivery.Secret)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	return webhook.New(secrets, nil)
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
	mux.Handle("/auth/", forwardauth.New(p.Gate, &forwardauth.Options{Headers: dialect, TrustedProxy: p.Trusted, Logger: p.Logger}))
	mux.Handle("/json", rls.JSON(p.Gate, &rls.Options{Headers: dialect, Logger: p.Logger}))
	guard := newGuard(p)
	admin := ruleadmin.Options{Admin: guard, Logger: p.Logger}
	if p.Rules != nil {
		admin.Table, admin.Source = p.Rules, p.Rules.Source
	}
	changes := ruleadmin.New(p.Gate, &admin)
	for _, path := range []string{"/admin/rules", "/admin/rules/", "/admin/history", "/admin/keys"} {
		mux.Handle(path, changes)
	}
	mux.Handle(seatrest.Path, seatrest.New(p.Gate.Seats, &seatrest.Options{Admin: guard, Canary: p.Watching}))
	if p.Slots != nil {
		slots := slotrest.New(p.Slots, p.Ledger, &slotrest.Options{Admin: guard, Delivers: p.Delivers, Logger: p.Logger})
		mux.Handle("/api/v1/slots", slots)
		mux.Handle("/api/v1/slots/", slots)
		mux.Handle("/admin/rate-limit/", slots)
	}
	return mux, nil
}

// newGuard makes what lets in the callers of the paths under /admin/.
func newGuard(p *server.Process) *access.Guard {
	o := access.Options{Closed: p.File.AdminClosed(), Logger: p.Logger}
	for _, t := range p.File.Admin.AllTokens() {
		o.Tokens = append(o.Tokens, access.Token{Name: t.Name, Hash: t.Hash, Write: t.Rights == "write"})
	}
	for _, c := range p.File.Admin.Certificates {
		o.Certificates = append(o.Certificates, access.Certificate{Name: c.Name, Write: c.Rights == "write"})
	}
	return access.New(&o)
}

func newGRPC(p *server.Process) (server.Service, error) {
	dialect, err := httpanswer.ParseDialect(p.File.Headers)
	if err != nil {
		return nil, err
	}
	return rls.New(p.Gate, &rls.Options{Headers: dialect, Ready: p.Ready, Observe: p.Metrics.GRPC("grpc"), Logger: p.Logger}), nil
}
