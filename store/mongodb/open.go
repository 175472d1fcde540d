package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/stint-dev/stint/limit/algo"
)

// Options configure a Store. The zero value is ready to use.
type Options struct {
	// Timeout bounds a call whose context has no deadline. Defaults to the
	// URL's timeoutMS, and to 10s without one.
	Timeout time.Duration
	// Parallel is how many updates a Limiter has under way at once. The URL's
	// maxPoolSize should not be less. Defaults to 8.
	Parallel int

	// now, if set, is the clock in place of the server's.
	now func() algo.Ticks
}

// openTimeout bounds Open and Migrate, whatever their contexts allow.
const openTimeout = 10 * time.Second

// Open connects to the database that url names, stint if it names none, and
// checks that it can be worked with: it must be what [Migrate] leaves behind.
// A nil o is the zero Options.
//
// url is a connection string of MongoDB: mongodb://HOST/DATABASE?PARAMETERS or
// mongodb+srv://. The error is a *limit.StoreError that says what is wrong and
// never has the URL's user, password or parameters in it.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := connect(ctx, url, o)
	if err != nil {
		return nil, err
	}
	if err := s.check(ctx); err != nil {
		s.Close()
		return nil, fault("open "+s.address, false, s.explain(err))
	}
	return s, nil
}

// connect returns a Store that has not been checked.
func connect(ctx context.Context, from string, o *Options) (*Store, error) {
	s := &Store{seed: maphash.MakeSeed()}
	for i := range s.turns {
		s.turns[i] = make(chan struct{}, 1)
	}
	if o != nil {
		s.opts = *o
	}
	s.opts.Parallel = cmp.Or(s.opts.Parallel, 8)
	parsed, err := parse(ctx, from)
	if err != nil {
		return nil, fault("open", false, err)
	}
	if s.opts.Timeout > 0 || parsed.Timeout == nil {
		parsed.SetTimeout(cmp.Or(s.opts.Timeout, openTimeout))
	}
	database := ""
	s.address, database = split(from)
	if s.client, err = mongo.Connect(parsed); err != nil {
		return nil, fault("open "+s.address, false, err)
	}
	s.states = s.client.Database(database).Collection(collection)
	return s, nil
}

// parse reads a URL and refuses what would break limits.
func parse(ctx context.Context, from string) (*options.ClientOptions, error) {
	parsed := options.Client()
	// The driver looks up mongodb+srv:// in the DNS here, and knows no context.
	looked := make(chan struct{})
	go func() {
		parsed.ApplyURI(from)
		close(looked)
	}()
	select {
	case <-looked:
	case <-ctx.Done():
		return nil, fmt.Errorf("the URL's host is still being looked up: %w", ctx.Err())
	}
	if err := parsed.Validate(); err != nil {
		return nil, fmt.Errorf("the URL is not a connection string of MongoDB: %s; write mongodb://HOST/DATABASE, and signs within a password as %%40 for @", quoted.ReplaceAllString(strings.TrimPrefix(err.Error(), "error parsing uri: "), "..."))
	}
	if p := parsed.ReadPreference; p != nil && p.Mode() != readpref.PrimaryMode {
		return nil, fmt.Errorf("readPreference: %s is not allowed, since what lags behind admits too much; leave it out, or set it to primary", p.Mode())
	}
	if w := parsed.WriteConcern; w != nil && !w.Acknowledged() {
		return nil, errors.New("w: 0 is not allowed, since nobody would know what was written; leave it out, or set it to majority")
	}
	return parsed, nil
}

// quoted is what may be a secret in the driver's words about a URL: if it is
// mistyped, the password may be anywhere.
var quoted = regexp.MustCompile(`"[^"]*"`)

// split returns from without what may be secret, and the database that it names.
func split(from string) (address, database string) {
	scheme, rest, _ := strings.Cut(from, "://")
	if _, behind, ok := strings.Cut(rest, "@"); ok {
		rest = behind
	}
	rest, _, _ = strings.Cut(rest, "?")
	hosts, database, _ := strings.Cut(rest, "/")
	if name, err := url.PathUnescape(database); err == nil {
		database = name
	}
	database = cmp.Or(database, "stint")
	return scheme + "://" + hosts + "/" + database, database
}

// check returns why s cannot be worked with.
func (s *Store) check(ctx context.Context) error {
	if _, err := s.look(ctx, nil); err != nil {
		return err
	}
	indexes, err := s.states.Indexes().ListSpecifications(ctx)
	if err != nil {
		return err
	}
	sweeps := false
	for _, i := range indexes {
		sweeps = sweeps || i.Name == indexName && i.ExpireAfterSeconds != nil
	}
	if !sweeps {
		return fmt.Errorf("the collection %s has no TTL index %s; run: stint migrate --store %s", collection, indexName, s.address)
	}
	// What changes nothing finds out whether something could be changed.
	_, err = s.states.UpdateOne(ctx, bson.D{{Key: "_id", Value: schemaID}, {Key: "schema", Value: schema}}, bson.D{{Key: "$set", Value: bson.D{{Key: "schema", Value: schema}}}})
	return err
}
