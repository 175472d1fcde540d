package redis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

const urlForm = "redis://[user:password@]host:port[,host:port...][/db][?prefix=name:], or rediss:// for TLS"

// errURL does not repeat the URL, nor a part of it: it may be the password.
var errURL = errors.New("the URL cannot be read; it is " + urlForm + ", and in a password %40, %2F and %23 stand for @, / and #")

// target is what a URL names.
type target struct {
	option rueidis.ClientOption
	hosts  string // for messages
	prefix string
}

// parse reads a URL as rueidis.ParseURL does, with several hosts and a prefix.
func parse(text string) (t target, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	if !found || strings.Contains(rest[end:], "@") {
		return t, errURL
	}
	user := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[user:end], ",")
	// A URL has one host. The others go where rueidis expects them.
	u, err := url.Parse(scheme + "://" + rest[:user] + hosts[0] + rest[end:])
	if err != nil {
		return t, errURL
	}
	query := u.Query()
	t.prefix = query.Get("prefix")
	query.Del("prefix")
	for _, host := range hosts[1:] {
		if _, _, err := net.SplitHostPort(host); err != nil {
			return t, fmt.Errorf("host %q has no port; the URL is %s", host, urlForm)
		}
		query.Add("addr", host)
	}
	u.RawQuery = query.Encode()
	if t.option, err = rueidis.ParseURL(u.String()); err != nil {
		return t, fmt.Errorf("%s; the URL is %s", strings.TrimPrefix(err.Error(), "redis: "), urlForm)
	}
	t.hosts = strings.Join(t.option.InitAddress, ",")
	return t, nil
}
