package mongodb_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/store/mongodb"
)

// databases makes databases on one server, behind a wire that can be cut.
type databases struct {
	url    *url.URL // of the server, through the wire
	wire   *servertest.Wire
	direct *mongo.Client // past the wire
	made   atomic.Int64
	last   string // the URL of the last one made
}

func start(t testing.TB) *databases {
	t.Helper()
	from := os.Getenv(servertest.MongoDBURL)
	if from == "" {
		from = servertest.StartMongoDB(t).URL
	}
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "mongodb" || strings.Contains(u.Host, ",") {
		t.Fatalf("%s must be mongodb://HOST:PORT of one server, with directConnection=true if it is the primary of a replica set", servertest.MongoDBURL)
	}
	d := &databases{url: u, wire: servertest.NewWire(t, u.Host)}
	if d.direct, err = mongo.Connect(options.Client().ApplyURI(from)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.direct.Disconnect(context.Background()) })
	d.url.Host = d.wire.Address
	return d
}

// empty returns the URL of a database that is empty and dropped after the test.
func (d *databases) empty(t testing.TB) string {
	t.Helper()
	d.made.Add(1)
	db := d.raw()
	u := *d.url
	u.Path = "/" + db.Name()
	d.last = u.String()
	t.Cleanup(func() {
		if err := db.Drop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d.last
}

// ready returns the URL of a database that a store can be opened on.
func (d *databases) ready(t testing.TB) string {
	t.Helper()
	u := d.empty(t)
	if _, err := mongodb.Migrate(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	return u
}

// address returns how errors call the last database.
func (d *databases) address() string { return "mongodb://" + d.url.Host + "/" + d.raw().Name() }

// raw returns the last database without a store around it.
func (d *databases) raw() *mongo.Database {
	return d.direct.Database(fmt.Sprintf("stint_test_%d_%d", os.Getpid(), d.made.Load()))
}

// open opens a store that whoever calls it must close.
func open(t testing.TB, u string, o *mongodb.Options) *mongodb.Store {
	t.Helper()
	s, err := mongodb.Open(t.Context(), u, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// store opens a store on a database of its own.
func (d *databases) store(t testing.TB, o *mongodb.Options) *mongodb.Store {
	t.Helper()
	s := open(t, d.ready(t), o)
	t.Cleanup(func() { s.Close() })
	return s
}

// noon is when the tests' clocks begin: so far ahead that the TTL monitor of a
// MongoDB removes nothing by it.
const noon = algo.Ticks(4_102_488_000_000_000)

func (d *databases) harness() limittest.Harness {
	return limittest.Harness{
		Open:   func(t testing.TB) limit.Store { return open(t, d.ready(t), nil) },
		Reopen: func(t testing.TB) limit.Store { return open(t, d.last, nil) },
		Break: func(testing.TB) (repair func()) {
			d.wire.Cut()
			return d.wire.Mend
		},
	}
}

func TestStore(t *testing.T) { limittest.Run(t, start(t).harness()) }

// The server's clock runs and has milliseconds. By one of the test's, the
// scripts are decided at exactly their instants.
func TestDecisions(t *testing.T) {
	d := start(t)
	var now atomic.Int64
	clock := new(mongodb.Options).WithClock(func() algo.Ticks { return algo.Ticks(now.Load()) })
	advance := func(_ testing.TB, d time.Duration) { now.Add(d.Microseconds()) }
	for _, script := range limittest.Scripts() {
		if script.GoesBack() {
			continue
		}
		t.Run(script.Name, func(t *testing.T) {
			now.Store(int64(noon))
			t.Run("update", func(t *testing.T) { script.Run(t, limittest.OverStore(t, d.store(t, clock), advance)) })
			t.Run("limiter", func(t *testing.T) { script.Run(t, limittest.LimiterOver(t, d.store(t, clock), advance)) })
		})
	}
}

func BenchmarkStore(b *testing.B) { limittest.Bench(b, start(b).harness()) }
