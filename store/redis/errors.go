package redis

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit"
)

// fault returns the error of op. What fails because the store was closed
// meanwhile says so.
func (s *Store) fault(op string, sent bool, err error) error {
	if s.closed.Load() && !errors.Is(err, limit.ErrKeyLen) && !errors.Is(err, context.Canceled) {
		err = limit.ErrClosed
	}
	return fault(op, sent, err)
}

func fault(op string, sent bool, err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		err = errors.New(explain(e.Error()))
	}
	return &limit.StoreError{Store: "redis", Op: op, Sent: sent, Err: err}
}

// refusals are the codes with which a server refuses a command before it does
// anything.
var refusals = map[string]bool{
	"NOAUTH": true, "WRONGPASS": true, "NOPERM": true, "DENIED": true, "READONLY": true, "LOADING": true,
	"OOM": true, "MISCONF": true, "NOREPLICAS": true, "MASTERDOWN": true, "BUSY": true, "NOSCRIPT": true,
	"CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true, "ASK": true, "CROSSSLOT": true,
}

// maySent reports whether a command that failed with err may have had its effect.
func maySent(err error) bool {
	if e, ok := rueidis.IsRedisErr(err); ok {
		code, _, _ := strings.Cut(e.Error(), " ")
		return !refusals[code]
	}
	e, ok := errors.AsType[*net.OpError](err)
	return !ok || e.Op != "dial"
}

// advice is what to do about an error whose text has a part in it.
var advice = []struct{ part, do string }{
	{"WRONGPASS", "correct the user and the password in the URL"},
	{"NOPERM", "give this user the rights that stint migrate --print shows"},
	{"can't run this command", "give this user the rights that stint migrate --print shows"},
	{"READONLY", "name the primary in place of its replica"},
	{"MASTERDOWN", "name the primary in place of its replica"},
	{"LOADING", "try again once it has loaded its data"},
	{"OOM", "give the server more memory (maxmemory)"},
	{"MISCONF", "make room on the server's disk; its log says more"},
	{"NOREPLICAS", "connect more replicas, or lower min-replicas-to-write"},
	{"CLUSTERDOWN", "see redis-cli --cluster check"},
	{"DB index", "the URL's number after the last / must be less than the server's setting databases"},
	{"cluster support disabled", "only a cluster has several hosts; name one"},
}

// explain adds what to do to what the server says, and takes away where it says
// too much.
func explain(text string) string {
	text, _, _ = strings.Cut(text, " script: ") // its hash, and the line
	switch {
	case strings.HasPrefix(text, "NOAUTH"):
		return "the server asks for a password; put it into the URL: redis://user:password@host"
	case strings.HasPrefix(text, "DENIED"):
		return "the server is in protected mode and answers its own machine only; set a password or a bind address there"
	}
	for _, a := range advice {
		if strings.Contains(text, a.part) {
			return strings.TrimSuffix(text, ".") + "; " + a.do
		}
	}
	return text
}
