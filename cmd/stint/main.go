// Stint decides how often a caller may do a thing. This is its one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/server"
)

// version is set by the build.
var version = "dev"

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1 // what was asked for could not be done
	exitConfig  = 2 // the configuration has problems
	exitUsage   = 64
	description = `Rate limits from one rules file.

Start with the quick start: write a rules file, check it, and put Stint in
front of a service:

    stint validate stint.yaml
    stint serve --config stint.yaml

Exit codes: 0 done, 1 failed, 2 the configuration has problems, 64 wrong usage.`
)

type commands struct {
	Serve    serveCommand    `cmd:"" help:"Run the reverse proxy and the API by a rules file."`
	Validate validateCommand `cmd:"" help:"Print every problem of rules files, with its line."`
	Migrate  migrateCommand  `cmd:"" help:"Make the tables that a store needs."`
	Replay   replayCommand   `cmd:"" help:"Run access logs through a rules file and say what would have been denied."`
	Explain  explainCommand  `cmd:"" help:"Tell how a request would be decided, and why."`
	Import   importCommand   `cmd:"" help:"Translate the configuration of another limiter to a rules file."`
	Slots    slotsCommand    `cmd:"" help:"Book, show and change reserved time slots."`
	Top      topCommand      `cmd:"" help:"Show, again and again, which tenants hold seats and which wait for them."`
	Rules    rulesCommand    `cmd:"" help:"Show and change the rules of a table, through a running process."`
	Keys     keysCommand     `cmd:"" help:"Show and reset what callers have spent, through a running process."`
	Token    tokenCommand    `cmd:"" help:"Make a token for the admin paths of the API."`
	Bench    benchCommand    `cmd:"" help:"Put a load on Stint and say whether it kept its promises."`
	Schema   schemaCommand   `cmd:"" help:"Print the JSON Schema of the rules file, for editors."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
}

// streams are the process's standard streams.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run is the program, and returns its exit code.
func run(ctx context.Context, args []string, std streams) int {
	var cli commands
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("stint"),
		kong.Description(description),
		kong.UsageOnError(),
		kong.Writers(std.out, std.err),
		kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic(err) // the commands above are wrong
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	switch {
	case exited >= 0: // --help
		return exited
	case err != nil:
		fmt.Fprintf(std.err, "stint: %s; stint --help shows how it is used\n", config.Redact(err.Error()))
		return exitUsage
	}
	err = command.Run()
	if err == nil {
		return exitOK
	}
	if problems, ok := errors.AsType[server.ConfigError](err); ok {
		fmt.Fprintln(std.err, problems)
		return exitConfig
	}
	fmt.Fprintf(std.err, "stint: %s\n", config.Redact(err.Error()))
	return exitFailed
}

type versionCommand struct{}

func (versionCommand) Run(std streams) error {
	_, err := fmt.Fprintln(std.out, "stint", version)
	return err
}
