package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/stint-dev/stint/config/fromenvoy"
	"github.com/stint-dev/stint/server"
)

type importCommand struct {
	EnvoyRatelimit importEnvoyCommand `cmd:"" name:"envoy-ratelimit" help:"Translate files of envoyproxy/ratelimit."`
}

type importEnvoyCommand struct {
	Files []string `arg:"" name:"file" help:"The files. Several about one domain are put together."`
}

func (importEnvoyCommand) Help() string {
	return `Prints a rules file that decides as the files of envoyproxy/ratelimit do, with a
comment at each rule where it comes from. What has no place in it is listed on
standard error: exit code 1 if decisions differ for it, and 0 if only metrics do.
Exit code 2, and no rules, if the files are wrong.

    stint import envoy-ratelimit config/*.yaml > stint.yaml`
}

func (c importEnvoyCommand) Run(std streams) error {
	var files []fromenvoy.File
	for _, name := range c.Files {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		files = append(files, fromenvoy.File{Name: name, Data: data})
	}
	t := fromenvoy.Translate(files)
	if len(t.Problems) > 0 {
		return server.ConfigError(t.Problems)
	}
	decides := 0
	for _, p := range t.Lost {
		fmt.Fprintln(std.err, p.Error())
		if !p.Warning {
			decides++
		}
	}
	if _, err := std.out.Write(t.Rules); err != nil {
		return err
	}
	if decides > 0 {
		return errors.New("import: what is listed above is not translated, and decisions differ for it")
	}
	return nil
}
