package mongodb_test

import (
	"context"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/stint-dev/stint/store/mongodb"
)

const secret = "hunter2"

func TestOpenURL(t *testing.T) {
	const mistyped = "mongodb: open: the URL is not a connection string of MongoDB: "
	const write = "; write mongodb://HOST/DATABASE, and signs within a password as %40 for @"
	for _, test := range []struct{ url, want string }{
		{"", mistyped + `scheme must be ... or ...` + write},
		{"postgres://alice:" + secret + "@localhost/stint", mistyped + `scheme must be ... or ...` + write},
		{"mongodb://", mistyped + "must have at least 1 host" + write},
		{"mongodb://alice:" + secret, mistyped + "invalid host ...: port must be an integer: strconv.Atoi: parsing ...: invalid syntax" + write},
		{"mongodb://alice:" + secret + "@home@localhost/", mistyped + "unescaped @ sign in user info" + write},
		{"mongodb://alice:" + secret + "%@localhost/", mistyped + "invalid password: invalid URL escape ..." + write},
		{"mongodb://alice:" + secret + "/@localhost/", mistyped + "unescaped slash in password" + write},
		{"mongodb://localhost:99999/", mistyped + "invalid host ...: port must be in the range [1, 65535]" + write},
		{"mongodb://localhost/?maxPoolSize=many", mistyped + "invalid value for ...: ..." + write},
		{"mongodb://alice:" + secret + "@localhost/?readPreference=secondary", "mongodb: open: readPreference: secondary is not allowed, since what lags behind admits too much; leave it out, or set it to primary"},
		{"mongodb://alice:" + secret + "@localhost/?readPreference=nearest", "mongodb: open: readPreference: nearest is not allowed, since what lags behind admits too much; leave it out, or set it to primary"},
		{"mongodb://alice:" + secret + "@localhost/?w=0", "mongodb: open: w: 0 is not allowed, since nobody would know what was written; leave it out, or set it to majority"},
	} {
		_, err := mongodb.Open(t.Context(), test.url, nil)
		wantError(t, err, test.want)
		_, err = mongodb.Migrate(t.Context(), test.url)
		wantError(t, err, test.want)
	}
}

func TestOpenWithoutServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	t.Run("nobody answers", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := mongodb.Open(ctx, "mongodb://alice:"+secret+"@"+address+"/limits?tls=false", nil)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v to find out", took)
		}
		wantError(t, err, "mongodb: open mongodb://"+address+"/limits: no primary answers: context deadline exceeded: "+address+" says nothing")
	})
	l.Close()
	t.Run("nobody listens", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := mongodb.Open(ctx, "mongodb://alice:"+secret+"@"+address, nil)
		wantError(t, err, "mongodb: open mongodb://"+address+"/stint: no primary answers: context deadline exceeded: dial tcp "+address+": connect: connection refused")
	})
}

func TestOpen(t *testing.T) {
	d := start(t)
	t.Run("not migrated", func(t *testing.T) {
		u := d.empty(t)
		_, err := mongodb.Open(t.Context(), u, nil)
		wantError(t, err, "mongodb: open "+d.address()+": the collection stint_state is missing or not complete; run: stint migrate --store "+d.address())
	})
	t.Run("no TTL index", func(t *testing.T) {
		u := d.ready(t)
		if err := d.raw().Collection("stint_state").Indexes().DropOne(t.Context(), "stint_expire"); err != nil {
			t.Fatal(err)
		}
		_, err := mongodb.Open(t.Context(), u, nil)
		wantError(t, err, "mongodb: open "+d.address()+": the collection stint_state has no TTL index stint_expire; run: stint migrate --store "+d.address())
	})
	t.Run("a newer schema", func(t *testing.T) {
		u := d.ready(t)
		_, err := d.raw().Collection("stint_state").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "stint"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "schema", Value: 2}}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = mongodb.Open(t.Context(), u, nil)
		wantError(t, err, "mongodb: open "+d.address()+": the collection stint_state has schema version 2 and this program knows 1; run a newer stint")
	})
	t.Run("gone while it is open", func(t *testing.T) {
		s := d.store(t, nil)
		if err := d.raw().Collection("stint_state").Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantError(t, s.Ping(t.Context()), "mongodb: ping: the collection stint_state is missing or not complete; run: stint migrate --store "+d.address())
	})
	t.Run("a wrong password", func(t *testing.T) {
		u, err := url.Parse(d.ready(t))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("nobody", secret)
		// The server that the tests start knows no users and says so.
		want := regexp.MustCompile(`^mongodb: open ` + d.address() + `: (the server does not accept the URL's user and password; .*|connection\(.*\(CommandNotFound\) no such command: 'saslStart')$`)
		if _, err := mongodb.Open(t.Context(), u.String(), nil); err == nil || !want.MatchString(err.Error()) || strings.Contains(err.Error(), secret) {
			t.Errorf("got the error\n%v\nwant one like\n%s\nwithout the password", err, want)
		}
	})
	t.Run("the context has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := mongodb.Open(ctx, d.ready(t), nil); err == nil {
			t.Error("it opens")
		}
	})
}
