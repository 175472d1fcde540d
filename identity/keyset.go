package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTimeout = 5 * time.Second
	maxRedirects = 3
	missInterval = 30 * time.Second // between two refreshes that tokens of unknown keys cause
)

// keySet is a JSON Web Key Set that is read again from time to time, and when
// a token names a key that is not in it. One goroutine does all the reading.
type keySet struct {
	target  string // a URL or the name of a file
	load    func(ctx context.Context) ([]byte, error)
	refresh time.Duration
	clock   func() time.Time
	log     *slog.Logger

	keys     atomic.Pointer[[]verifyKey]
	missed   chan chan struct{} // who waits because a key is not there
	nextMiss atomic.Int64       // Unix nanoseconds; before, a miss is a miss
	stopped  chan struct{}
}

// name is the target as it may be logged: the query of a URL may be secret.
func (s *keySet) name() string {
	name, _, _ := strings.Cut(s.target, "?")
	return name
}

// read replaces the keys by what the source has now.
func (s *keySet) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	data, err := s.load(ctx)
	if err != nil {
		return err
	}
	keys, err := parseKeySet(data)
	if err != nil {
		return err
	}
	s.keys.Store(&keys)
	return nil
}

// keepFresh reads the keys again and again until ctx ends. The last good ones
// stay if that fails.
func (s *keySet) keepFresh(ctx context.Context) {
	defer close(s.stopped)
	ticker := time.NewTicker(s.refresh)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.reread(ctx)
		case waiting := <-s.missed:
			if s.mayMiss() {
				s.reread(ctx)
				s.nextMiss.Store(s.clock().Add(missInterval).UnixNano())
			}
			close(waiting)
		}
	}
}

func (s *keySet) reread(ctx context.Context) {
	if err := s.read(ctx); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "identity: key set not refreshed, the last good one stays", "source", s.name(), "error", err)
	}
}

func (s *keySet) mayMiss() bool { return s.clock().UnixNano() >= s.nextMiss.Load() }

// find returns the keys of that ID which can have signed with algorithm. If
// there is none, the issuer may have changed keys, so it waits while the set
// is read again.
func (s *keySet) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) []any {
	if keys := s.known(id, algorithm); len(keys) > 0 {
		return keys
	}
	if !s.mayMiss() {
		return s.known(id, algorithm) // It may have been read since the line above.
	}
	waiting := make(chan struct{})
	select {
	case s.missed <- waiting:
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return nil
	}
	select {
	case <-waiting:
	case <-ctx.Done():
	}
	return s.known(id, algorithm)
}

// known returns the keys that fit. A token without an ID may be of any key.
func (s *keySet) known(id string, algorithm jose.SignatureAlgorithm) []any {
	var fit []any
	for _, k := range *s.keys.Load() {
		if k.fits(algorithm) && (id == "" || k.id == id) {
			fit = append(fit, k.key)
		}
		if len(fit) == maxMatches {
			break
		}
	}
	return fit
}

// fetch returns a function that gets target, which checkKeyURL has passed.
func fetch(client *http.Client, target string) func(ctx context.Context) ([]byte, error) {
	c := *client
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if r.URL.Scheme != via[0].URL.Scheme {
			return fmt.Errorf("redirect from %s to %s refused", via[0].URL.Scheme, r.URL.Scheme)
		}
		return checkKeyURL(r.URL.String())
	}
	return func(ctx context.Context) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "application/jwk-set+json, application/json")
		r.Close = true // The next time is minutes away.
		resp, err := c.Do(r)
		if err != nil {
			return nil, withoutURL(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the answer is %d %s; 200 is needed", resp.StatusCode, http.StatusText(resp.StatusCode))
		}
		return readAll(resp.Body, maxKeyData)
	}
}

// withoutURL drops the address from an error of net/http: its query may be secret.
func withoutURL(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", fetchTimeout)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// checkKeyURL returns an error unless what target answers can be trusted.
func checkKeyURL(target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Hostname() == "" {
		return errors.New("is not a URL; https://HOST/PATH is needed")
	}
	if u.User != nil {
		return errors.New("has a user or password in it, which is not allowed")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && local) {
		return errors.New("who can change the answer on its way could sign any token; https is needed, or http on this machine")
	}
	return nil
}
