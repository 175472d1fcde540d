// Package server makes a running process out of a configuration file: it opens
// the store, listens, follows changes of the file and shuts down gracefully.
// Which stores and transports there are is for its caller to say.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/deliver"
	"github.com/stint-dev/stint/telemetry"
)

// Options say what a process is made of.
type Options struct {
	// Config is the path of the configuration file.
	Config string
	// Set are fields to take in place of what the file says, each written as
	// FIELD=VALUE: listen.proxy=:8000.
	Set []string
	// Version is shown by the metrics.
	Version string
	// Log is where log lines go.
	Log io.Writer
	// Stores are the stores that a configuration may name, besides memory.
	Stores []Store
	// Transports are the ways in.
	Transports []Transport
	// Sender makes what tells receivers that a slot has come. It is asked for only
	// if the configuration has a secret to sign by.
	Sender func(f *config.File) (deliver.Sender, error)
	// Reload, if set, makes the process read its file again at once.
	Reload <-chan struct{}
	// Started, if set, is told the addresses by the names of their
	// transports, once all of them accept connections.
	Started func(addresses map[string]net.Addr)
}

// Transport is one way in.
type Transport struct {
	// Name names the transport in logs and its address in listen.
	Name string
	// Address returns where to listen, or "" if the configuration has no use for it.
	Address func(f *config.File) string
	// TLS returns the certificates of that address. Nil if it never has any.
	TLS func(f *config.File) config.ListenerTLS
	// Handler answers what arrives there over HTTP.
	Handler func(p *Process) (http.Handler, error)
	// Service, if there is no Handler, answers in a protocol of its own.
	Service func(p *Process) (Service, error)
}

// Service answers what arrives at a listener. An *http.Server is one.
type Service interface {
	// Serve serves until it fails or the Service is shut down. It bounds what a
	// client may hold.
	Serve(l net.Listener) error
	// Shutdown accepts nothing more, and returns once what has begun is answered,
	// or with an error if ctx ends first.
	Shutdown(ctx context.Context) error
	// Close cuts off what has begun.
	Close() error
}

// Process is what a transport's handler is made from.
type Process struct {
	Gate *gate.Gate
	// Watching returns what measures the isolation of tenants, nil if the
	// configuration does not ask for it.
	Watching func() *isolate.Canary
	// Slots books in Ledger. Both are nil if the configuration keeps no slots.
	Slots  *slots.Scheduler
	Ledger slots.Ledger
	// Delivers says that receivers are told of slots that have come.
	Delivers bool
	// Rules is the table that more rules come from, nil if there is none.
	Rules   *RuleTable
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	// File is the configuration that the process was started with.
	File *config.File
	// Ready returns nil if the process should be sent requests, an error that wraps
	// ErrDegraded or ErrRulesStale if it should in spite of it, or why it should not.
	Ready func(ctx context.Context) error
	// Trusted reports whether a peer is a proxy that is believed about callers.
	Trusted func(peer netip.Addr) bool
}

// ErrDegraded: the store does not answer, and no rule asks to be refused then.
var ErrDegraded = errors.New("deciding without the store")

// ConfigError is a configuration that cannot be used, with all its problems.
type ConfigError []config.Problem

func (e ConfigError) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Run runs a process until ctx ends, and then until what it has begun is
// answered or the configuration's grace is over. The error is a ConfigError if
// the file cannot be used.
func Run(ctx context.Context, o Options) error {
	var logger *slog.Logger
	cfg, problems := config.Load(o.Config, &config.Options{Set: o.Set, Logger: func(l config.Log) *slog.Logger {
		logger = newLogger(o.Log, l)
		return logger
	}})
	if cfg == nil {
		return ConfigError(problems)
	}
	logProblems(logger, problems)

	stores, err := openStores(ctx, o.Stores, cfg.File, logger)
	if err != nil {
		return err
	}
	defer stores.close()
	metrics := telemetry.NewMetrics(o.Version)
	limiter := limit.New(stores.shared, &limit.Options{
		Local:     stores.local,
		Timeout:   time.Duration(cfg.File.StoreTimeout),
		SyncEvery: time.Duration(cfg.File.Sync.Every),
		MaxSynced: cfg.File.Sync.MaxKeys,
		Observer:  metrics,
	})
	defer limiter.Close()
	current := &current{config: cfg, path: o.Config, set: o.Set, logger: logger, metrics: metrics, table: stores.table}
	defer current.close()
	if err := current.start(ctx, limiter, stores); err != nil {
		return err
	}

	var stopping atomic.Bool
	canary := &isolate.Canary{}
	metrics.Canary(canary)
	process := &Process{
		Gate: current.gate, Rules: stores.table, Metrics: metrics, Logger: logger, File: cfg.File,
		Ready: func(ctx context.Context) error {
			if stopping.Load() {
				return errors.New("shutting down")
			}
			return current.ready(ctx, stores.shared)
		},
		Trusted: current.trusts,
		Watching: func() *isolate.Canary {
			if current.watched() == nil {
				return nil
			}
			return canary
		},
	}
	if stores.ledger != nil {
		stop, err := openSlots(ctx, stores.ledger, o.Sender, process)
		if err != nil {
			return err
		}
		defer stop()
	}
	servers, err := listen(o.Transports, process)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	var follower sync.WaitGroup
	defer follower.Wait()
	follower.Go(func() { current.follow(following, o.Reload) })
	follower.Go(func() { canary.Watch(following, current.watched) })
	defer stop()
	return serve(ctx, servers, process, &stopping, o.Started)
}

// server is one transport that listens.
type server struct {
	name     string
	listener net.Listener
	service  Service
}

// maxHeader bounds the header of a request; a larger one is answered 431.
const maxHeader = 64 << 10

// listen opens every address, so that one which is taken is found before
// anything is served.
func listen(transports []Transport, p *Process) (servers []*server, err error) {
	defer func() {
		if err != nil {
			for _, s := range servers {
				s.listener.Close()
			}
		}
	}()
	for _, t := range transports {
		address := t.Address(p.File)
		if address == "" {
			continue
		}
		service, err := t.service(p)
		if err != nil {
			return servers, fmt.Errorf("%s: %w", t.Name, err)
		}
		var secure *tls.Config
		if t.TLS != nil {
			if secure, err = newTLS(t.Name, t.TLS(p.File), p.Logger); err != nil {
				return servers, err
			}
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return servers, fmt.Errorf("listen.%s: %w; choose another address in the configuration", t.Name, err)
		}
		if secure != nil {
			l = tls.NewListener(l, secure)
		}
		servers = append(servers, &server{t.Name, l, service})
	}
	if len(servers) == 0 {
		return nil, errors.New("nothing to serve: listen.api and listen.grpc are off, and there is no proxy.upstream or listen.proxy is off")
	}
	return servers, nil
}

// service makes what answers at t's address.
func (t *Transport) service(p *Process) (Service, error) {
	if t.Handler == nil {
		return t.Service(p)
	}
	handler, err := t.Handler(p)
	if err != nil {
		return nil, err
	}
	return &http.Server{
		Handler:           slowest(bodyPause, p.Metrics.HTTP(t.Name, handler)),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
	}, nil
}

// serve serves until ctx ends or a server fails, and then shuts all of them down.
func serve(ctx context.Context, servers []*server, p *Process, stopping *atomic.Bool, started func(map[string]net.Addr)) error {
	failed := make(chan error, len(servers))
	addresses := make(map[string]net.Addr)
	for _, s := range servers {
		addresses[s.name] = s.listener.Addr()
		p.Logger.Info("listening", "transport", s.name, "address", s.listener.Addr().String())
		go func() { failed <- s.service.Serve(s.listener) }()
	}
	if started != nil {
		started(addresses)
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	stopping.Store(true)
	grace := time.Duration(p.File.ShutdownGrace)
	p.Logger.Info("shutting down", "grace", grace)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var wg sync.WaitGroup
	if seats := p.Gate.Seats(); seats != nil {
		wg.Go(func() { seats.Close(end) }) // who waits for a seat is answered now
	}
	for _, s := range servers {
		wg.Go(func() {
			if s.service.Shutdown(end) != nil {
				p.Logger.Warn("requests were cut off", "transport", s.name)
				s.service.Close()
			}
		})
	}
	wg.Wait()
	return err
}
