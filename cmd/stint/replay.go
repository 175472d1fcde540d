package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/internal/progress"
	"github.com/stint-dev/stint/replay"
	"github.com/stint-dev/stint/server"
)

type replayCommand struct {
	Config    string            `short:"c" default:"stint.yaml" env:"STINT_CONFIG" type:"path" placeholder:"FILE" help:"The rules file (default: ${default})."`
	Format    string            `enum:"table,json" default:"table" help:"How to write the report: table (the default) or json."`
	LogFormat string            `enum:"auto,combined,json" default:"auto" help:"How the logs are written: auto (the default) looks at their first lines, combined is that of nginx and Apache, json is an object a line."`
	Field     map[string]string `mapsep:"," placeholder:"NAME=FIELD,..." help:"Where a JSON line has time, method, host, path, ip, user, user_agent and referer (default: there); any other name becomes an attribute. Dots lead into nested objects: method=req.method."`
	Suggest   *share            `placeholder:"SHARE" help:"For each rule's first limit, name the smallest quota that would have denied at most this share of the keys: 1% or 0.01."`
	Logs      []string          `arg:"" name:"log" help:"The logs, in the order of time; gzip is read as well. - is standard input."`
}

func (replayCommand) Help() string {
	return `Runs access logs through the rules as if their requests came now, only faster,
and says what would have been denied. Nothing is sent anywhere, and the store
that the rules file names is not touched.

    stint replay --config stint.yaml access.log
    zcat -f access.log* | stint replay --suggest 1% -
    stint replay --field time=ts,method=req.method,path=req.url,ip=remote app.json`
}

func (c replayCommand) Run(ctx context.Context, std streams) error {
	cfg, problems := config.Load(c.Config, nil)
	if cfg == nil {
		return server.ConfigError(problems)
	}
	defer cfg.Close()
	for _, p := range problems {
		fmt.Fprintln(std.err, p.Error())
	}
	bar := progress.New(std.err, "replay", "lines")
	report, failure := replay.Run(ctx, replay.Options{
		Spec:       cfg.File.Spec,
		Logs:       c.Logs,
		Stdin:      std.in,
		Format:     replay.Format(c.LogFormat),
		Fields:     c.Field,
		IPv6Prefix: cfg.File.Identity.IPv6Prefix,
		Suggest:    (*float64)(c.Suggest),
		Progress:   func(p replay.Progress) { bar.Show(p.Lines, p.Part(), p.Took) },
	})
	bar.Clear()
	if report == nil {
		return failure
	}
	write := report.WriteTable
	if c.Format == "json" {
		write = report.WriteJSON
	}
	if err := write(std.out); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("replay: interrupted; the report is about the lines read until then")
	}
	return failure
}

// share is a part of 1, written as such or in percent.
type share float64

func (s *share) UnmarshalText(text []byte) error {
	number, inPercent := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(number, 64)
	if inPercent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f < 1) {
		return fmt.Errorf("%q is not a share; 0 to less than 1 is allowed, or 0%% to less than 100%%", text)
	}
	*s = share(f)
	return nil
}
