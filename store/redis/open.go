package redis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Options configure a Store. The zero value is ready to use.
type Options struct {
	// Prefix begins the name of every key in Redis. Those who are to share their
	// states have the same. On a cluster, one with a hash tag such as {stint}:
	// puts all keys in one slot: then all can change together, and one master
	// does all the work. Up to 64 bytes. Defaults to the URL's parameter
	// prefix, and without one to "stint:".
	Prefix string
	// DialTimeout is how long a connection may take to be made, whatever a
	// call's context allows. Defaults to 2s, or the URL's parameter dial_timeout.
	DialTimeout time.Duration
	// Timeout is how long the server may keep a call waiting before the
	// connection is given up, whatever the call's context allows. Defaults to
	// 3s, or the URL's parameter write_timeout.
	Timeout time.Duration
	// Logger is told what is wrong with the server's settings. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Open connects to the server, or the cluster, that url names:
//
//	redis://[user:password@]host:port[,host:port...][/db][?prefix=name:]
//
// or rediss:// for TLS. Several hosts are nodes of one cluster. A nil o is the
// zero Options. Open makes sure that the server is new enough and lets this
// user do what the Store needs. The error is a *limit.StoreError that says what
// is wrong; it never has the password in it.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	t, err := parse(url)
	if err != nil {
		return nil, fault("open", false, err)
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	s := &Store{prefix: cmp.Or(opts.Prefix, t.prefix, "stint:"), slack: time.Second, ending: make(chan struct{})}
	if err := checkPrefix(s.prefix); err != nil {
		return nil, fault("open", false, err)
	}
	s.channel = fmt.Sprintf("%snotes:%d", s.prefix, t.option.SelectDB)
	t.option.DisableCache = true // states are never read twice
	t.option.DisableRetry = true // what was sent twice might be counted twice
	t.option.Dialer.Timeout = cmp.Or(opts.DialTimeout, t.option.Dialer.Timeout, 2*time.Second)
	t.option.ConnWriteTimeout = cmp.Or(opts.Timeout, t.option.ConnWriteTimeout, 3*time.Second)
	if s.client, err = connect(ctx, t.option); err != nil {
		return nil, fault("open "+t.hosts, false, err)
	}
	s.apart = s.client.Mode() == rueidis.ClientModeCluster && !hasTag(s.prefix)
	if err := s.check(ctx, cmp.Or(opts.Logger, slog.Default())); err != nil {
		s.Close()
		return nil, fault("open "+t.hosts, false, err)
	}
	return s, nil
}

// connect is rueidis.NewClient that comes back when ctx ends.
func connect(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	type result struct {
		client rueidis.Client
		err    error
	}
	connected := make(chan result, 1)
	go func() {
		client, err := rueidis.NewClient(option)
		connected <- result{client, err}
	}()
	select {
	case r := <-connected:
		return r.client, r.err
	case <-ctx.Done():
		go func() {
			if r := <-connected; r.err == nil {
				r.client.Close()
			}
		}()
		if option.TLSConfig != nil {
			return nil, fmt.Errorf("the server does not answer; it may not speak TLS: %w", ctx.Err())
		}
		return nil, fmt.Errorf("the server does not answer: %w", ctx.Err())
	}
}

// check returns an error if the server cannot keep states.
func (s *Store) check(ctx context.Context, log *slog.Logger) error {
	masters, err := s.masters(ctx)
	if err != nil {
		return err
	}
	for _, m := range masters {
		text, err := m.Do(ctx, m.B().Info().Build()).ToString()
		if err != nil {
			return err
		}
		if err := checkInfo(readInfo(text), log); err != nil {
			return err
		}
	}
	_, err = outcome(s.run(ctx, call{probeScript, []string{s.name("probe")}, s.args()}))
	return err
}

// readInfo reads the answer to INFO.
func readInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}

func checkInfo(info map[string]string, log *slog.Logger) error {
	major, rest, _ := strings.Cut(info["redis_version"], ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, _ := strconv.Atoi(major)
	if y, _ := strconv.Atoi(minor); x < 6 || x == 6 && y < 2 {
		return fmt.Errorf("the server is Redis %s; 6.2 or newer is needed", info["redis_version"])
	}
	if info["role"] == "slave" {
		return fmt.Errorf("the server is a read-only replica; name its primary, %s:%s", info["master_host"], info["master_port"])
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" && info["maxmemory"] != "0" {
		log.Warn("redis may forget states when it runs out of memory, and what was spent can then be spent again; set maxmemory-policy to noeviction",
			"maxmemory-policy", policy, "maxmemory", info["maxmemory_human"])
	}
	return nil
}
