package redis_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/redis"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	plain := servertest.StartRedis(t)
	locked := servertest.StartRedis(t, "--requirepass", "s3cret")
	replica := servertest.StartRedis(t, "--replicaof", "127.0.0.1 "+strings.TrimPrefix(plain.Address, "127.0.0.1:"))
	full := servertest.StartRedis(t, "--maxmemory", "1")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	nobody := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
	plain.Run(t, "ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "&*", "+@all", "-set")
	plain.Run(t, "ACL", "SETUSER", "stranger", "on", ">s3cret", "~*", "&*")

	const form = "redis://[user:password@]host:port[,host:port...][/db][?prefix=name:], or rediss:// for TLS"
	const noURL = "open: the URL cannot be read; it is " + form + ", and in a password %40, %2F and %23 stand for @, / and #"
	const rights = "; give this user the rights that stint migrate --print shows"
	for _, test := range []struct{ name, url, want string }{
		{"nobody there", "redis://:s3cret@" + nobody,
			"open " + nobody + ": dial tcp " + nobody + ": connect: connection refused"},
		{"no answer", "redis://:s3cret@" + silent.Addr().String(),
			"open " + silent.Addr().String() + ": the server does not answer: context deadline exceeded"},
		{"TLS where there is none", "rediss://:s3cret@" + plain.Address,
			"open " + plain.Address + ": the server does not answer; it may not speak TLS: context deadline exceeded"},
		{"no password", locked.URL,
			"open " + locked.Address + ": the server asks for a password; put it into the URL: redis://user:password@host"},
		{"wrong password", "redis://:s3crex@" + locked.Address,
			"open " + locked.Address + ": WRONGPASS invalid username-password pair or user is disabled; correct the user and the password in the URL"},
		{"no rights", "redis://stranger:s3cret@" + plain.Address,
			"open " + plain.Address + ": NOPERM this user has no permissions to run the 'info' command" + rights},
		{"a right is missing", "redis://reader:s3cret@" + plain.Address,
			"open " + plain.Address + ": The user executing the script can't run this command or subcommand" + rights},
		{"replica", replica.URL,
			"open " + replica.Address + ": the server is a read-only replica; name its primary, " + plain.Address},
		{"out of memory", full.URL,
			"open " + full.Address + ": OOM command not allowed when used memory > 'maxmemory'; give the server more memory (maxmemory)"},
		{"database out of range", plain.URL + "/99",
			"open " + plain.Address + ": DB index is out of range; the URL's number after the last / must be less than the server's setting databases"},
		{"several servers that are no cluster", plain.URL + "," + full.Address,
			"open " + plain.Address + "," + full.Address + ": This instance has cluster support disabled; only a cluster has several hosts; name one"},
		{"no URL", "localhost:6379", noURL},
		{"a slash in the password", "redis://user:s3/cret@localhost", noURL},
		{"a number and a slash in the password", "redis://user:53/s3cret@localhost", noURL},
		{"another scheme", "postgres://:s3cret@localhost", "open: invalid URL scheme: postgres; the URL is " + form},
		{"a database that is no number", "redis://:s3cret@localhost/one", `open: invalid database number: "one"; the URL is ` + form},
		{"a second host without a port", "redis://:s3cret@one:1,two", `open: host "two" has no port; the URL is ` + form},
		{"a long prefix", plain.URL + "?prefix=" + strings.Repeat("p", 65), "open: prefix: it has 65 bytes; up to 64 are allowed"},
		{"a prefix with an empty tag", plain.URL + "?prefix={}",
			`open: prefix: "{}" has an empty hash tag; put something between { and }, or leave them out`},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			began := time.Now()
			s, err := redis.Open(ctx, test.url, nil)
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if fault, ok := err.(*limit.StoreError); !ok || fault.Sent {
				t.Errorf("%#v, want a *limit.StoreError of what was not sent", err)
			}
			if want := "redis: " + test.want; err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %v, and the context ended after 500ms", took)
			}
		})
	}
}

func TestOpenChecksTheServer(t *testing.T) {
	for _, test := range []struct{ info, wantErr, wantLog string }{
		{"redis_version:7.0.15\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", "", ""},
		{"redis_version:6.2.0\r\nrole:master\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n", "", ""},
		{"redis_version:10.1\r\nrole:master\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n", "", ""},
		{"redis_version:6.0.16\r\nrole:master\r\n", "the server is Redis 6.0.16; 6.2 or newer is needed", ""},
		{"redis_version:5.9\r\nrole:master\r\n", "the server is Redis 5.9; 6.2 or newer is needed", ""},
		{"redis_version:7.0.15\r\nrole:slave\r\nmaster_host:db1\r\nmaster_port:6380\r\n", "the server is a read-only replica; name its primary, db1:6380", ""},
		{"redis_version:7.0.15\r\nrole:master\r\nmaxmemory:1000\r\nmaxmemory_human:1000B\r\nmaxmemory_policy:volatile-lru\r\n", "", "maxmemory-policy=volatile-lru maxmemory=1000B"},
	} {
		var log bytes.Buffer
		err := redis.CheckInfo(test.info, slog.New(slog.NewTextHandler(&log, nil)))
		if fmt.Sprint(err) != cmp.Or(test.wantErr, "<nil>") {
			t.Errorf("%q: got error %v, want %s", test.info, err, test.wantErr)
		}
		if test.wantLog == "" && log.Len() > 0 || !strings.Contains(log.String(), test.wantLog) {
			t.Errorf("%q: logged %q, want %q", test.info, log.String(), test.wantLog)
		}
	}
}
