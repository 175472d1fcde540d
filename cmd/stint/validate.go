package main

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/server"
)

type validateCommand struct {
	Files []string `arg:"" name:"file" type:"path" help:"The rules files."`
}

func (validateCommand) Help() string {
	return `Prints every problem as file:line:column: field: what is wrong and what is
allowed. Exit code 2 if there is one; warnings alone are 0.

    stint validate stint.yaml`
}

func (c validateCommand) Run(std streams) error {
	var refused server.ConfigError
	for _, file := range c.Files {
		cfg, problems := config.Load(file, nil)
		if cfg == nil {
			refused = append(refused, problems...)
			continue
		}
		for _, p := range problems {
			fmt.Fprintln(std.err, p.Error())
		}
		var names []string
		for _, r := range cfg.Rules.Rules() {
			names = append(names, r.Name)
		}
		fmt.Fprintf(std.out, "%s: ok, %d rules: %s\n", file, len(names), strings.Join(names, ", "))
		cfg.Close()
	}
	if refused != nil {
		return refused
	}
	return nil
}

type schemaCommand struct{}

func (schemaCommand) Help() string {
	return `An editor that knows the schema completes the fields of a rules file and
marks mistakes while you type. Save it and name it in the file's first line:

    stint schema > stint.schema.json
    # yaml-language-server: $schema=stint.schema.json`
}

func (schemaCommand) Run(std streams) error {
	_, err := std.out.Write(config.Schema())
	return err
}
