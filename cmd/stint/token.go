package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/stint-dev/stint/config"
)

type tokenCommand struct {
	Name   string `arg:"" help:"Whose it is: the history of changes and the log call its owner so."`
	Rights string `enum:"read,write" default:"write" help:"What it is good for: read, to look; write, to change things, too (default: ${default})."`
}

func (tokenCommand) Help() string {
	return `Prints a new token on standard output, once: Stint does not keep it. What the
configuration needs, which is no secret, goes to standard error:

    stint token ops > ops.token
    stint token dashboard --rights read > dashboard.token

Whoever has the token sends it as Authorization: Bearer, or gives it to
stint rules and stint keys as STINT_API_TOKEN.`
}

func (c tokenCommand) Run(std streams) error {
	var secret [32]byte
	rand.Read(secret[:]) // never fails
	token := "stint_" + base64.RawURLEncoding.EncodeToString(secret[:])
	if _, err := fmt.Fprintln(std.out, token); err != nil {
		return err
	}
	_, err := fmt.Fprintf(std.err, "Keep it: it is not shown again. In the configuration, and then restart:\n\nadmin:\n  tokens:\n    - {name: %q, hash: %q, rights: %s}\n", c.Name, config.HashToken(token), c.Rights)
	return err
}
