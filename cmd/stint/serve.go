package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/stint-dev/stint/server"
)

type serveCommand struct {
	Config string   `short:"c" default:"stint.yaml" env:"STINT_CONFIG" type:"path" placeholder:"FILE" help:"The rules file (default: ${default}). A change is in force within a second, or at once on SIGHUP; one with problems is refused."`
	Set    []string `sep:"none" placeholder:"FIELD=VALUE" help:"A field to take in place of what the file says, such as listen.proxy=:8000; can be repeated. Several processes can share a file that way."`
}

func (serveCommand) Help() string {
	return `Serves the reverse proxy on listen.proxy (default 127.0.0.1:8000) if the file
has proxy.upstream, the API, /healthz, /readyz and /metrics on listen.api
(default 127.0.0.1:8080), and Envoy's rate limit service on listen.grpc if the
file has that. SIGTERM ends it gracefully.

    stint serve --config stint.yaml
    stint serve --config stint.yaml --set listen.proxy=:8001 --set listen.api=off`
}

func (c serveCommand) Run(ctx context.Context, std streams) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	reload := make(chan struct{})
	go func() {
		for {
			select {
			case <-hangup:
				select {
				case reload <- struct{}{}:
				case <-ctx.Done():
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return server.Run(ctx, server.Options{
		Config:     c.Config,
		Set:        c.Set,
		Version:    version,
		Log:        std.err,
		Stores:     stores,
		Transports: transports,
		Sender:     newSender,
		Reload:     reload,
	})
}
