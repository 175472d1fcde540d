package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/transport/ruleadmin"
)

type keysCommand struct {
	Get   keysGetCommand   `cmd:"" help:"Show what is left of the quotas that a request would be charged to."`
	Reset keysResetCommand `cmd:"" help:"Give back all that was spent of them."`
}

func (keysCommand) Help() string {
	return `Asks the API of a running stint. Say of a request what the rules match and count by:

    stint keys get --rule uploads --path /file/7 user=ann
    stint keys reset --rule uploads --path /file/7 user=ann

STINT_API stands in for --api, and STINT_API_TOKEN is the token to send.`
}

// keyFlags describe a request.
type keyFlags struct {
	apiFlags
	Rule       string            `placeholder:"NAME" help:"The rule, of the file or of the table (default: all that are for such a request)."`
	Method     string            `placeholder:"METHOD" help:"The request's method."`
	Host       string            `placeholder:"HOST" help:"Its host."`
	Path       string            `placeholder:"PATH" help:"Its path, as a caller would send it."`
	Header     map[string]string `placeholder:"NAME=VALUE" help:"A header of it."`
	Attributes []string          `arg:"" optional:"" placeholder:"NAME=VALUE" help:"What identity finds out about the caller, such as user=ann."`
}

func (f keyFlags) do(ctx context.Context, std streams, method string) error {
	q := url.Values{}
	for name, value := range map[string]string{"rule": f.Rule, "method": f.Method, "host": f.Host, "path": f.Path} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Header)) {
		q.Set("header."+name, f.Header[name])
	}
	for _, text := range f.Attributes {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q is not an attribute; write NAME=VALUE, such as user=ann", text)
		}
		q.Set("attribute."+name, value)
	}
	a, err := f.ask(ctx, method, "/admin/keys?"+q.Encode(), "")
	if err != nil {
		return err
	}
	var keys ruleadmin.Keys
	return f.print(std.out, a, &keys, func(w io.Writer) {
		fmt.Fprintln(w, "RULE\tKEY\tPOLICY\tREMAINING\tLIMIT\tRETRY AFTER\tRESET AFTER")
		for _, k := range keys.Keys {
			if k.Exempt {
				fmt.Fprintf(w, "%s\t%s\texempt\t-\t-\t-\t-\n", k.Rule, k.Key)
			}
			for _, p := range k.Policies {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", k.Rule, k.Key, p.Policy, p.Remaining, p.Limit, inSeconds(p.RetryAfterMS), inSeconds(p.ResetAfterMS))
			}
		}
	})
}

func inSeconds(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

type keysGetCommand struct{ keyFlags }

func (c keysGetCommand) Run(ctx context.Context, std streams) error {
	return c.do(ctx, std, http.MethodGet)
}

type keysResetCommand struct{ keyFlags }

func (c keysResetCommand) Run(ctx context.Context, std streams) error {
	return c.do(ctx, std, http.MethodDelete)
}
