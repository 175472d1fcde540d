package mongodb

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// Errors of servers that the tests have none of.
func TestExplain(t *testing.T) {
	client, err := mongo.Connect(options.Client())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(t.Context())
	s := &Store{states: client.Database("limits").Collection(collection)}
	noPrimary := topology.ServerSelectionError{Wrapped: context.DeadlineExceeded, Desc: description.Topology{Servers: []description.Server{
		{Addr: "a:27017", Kind: description.ServerKindRSSecondary},
		{Addr: "b:27017", LastError: errors.New("dial tcp: b is unknown")},
	}}}
	for _, test := range []struct {
		err    error
		unsent bool
		want   string
	}{
		{noPrimary, true, "no primary answers: context deadline exceeded: a:27017 is RSSecondary; dial tcp: b is unknown"},
		{topology.ConnectionError{ConnectionID: "c"}, true, "connection(c)"},
		{topology.WaitQueueTimeoutError{}, true, "timed out while checking out a connection from connection pool; total connections: 0, maxPoolSize: 0, idle connections: 0, wait duration: 0s"},
		{mongo.CommandError{Code: 18, Name: "AuthenticationFailed", Message: "no"}, true, "the server does not accept the URL's user and password; name the database that the user belongs to as authSource, if it is another one"},
		{mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "no"}, true, "(Unauthorized) no; grant the user the role readWrite on the database limits"},
		{mongo.CommandError{Code: 10107, Name: "NotWritablePrimary", Message: "no"}, true, "(NotWritablePrimary) no; name all hosts of the replica set and leave out directConnection"},
		{mongo.CommandError{Message: "lost", Wrapped: topology.ConnectionError{ConnectionID: "c"}}, false, " lost: connection(c)"},
		{context.DeadlineExceeded, false, "context deadline exceeded"},
	} {
		if got := s.explain(test.err).Error(); got != test.want {
			t.Errorf("got\n%s\nwant\n%s", got, test.want)
		}
		if got := unsent(test.err); got != test.unsent {
			t.Errorf("%v: unsent is %t, want %t", test.err, got, test.unsent)
		}
	}
}
