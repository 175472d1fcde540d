package mongodb

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/stint-dev/stint/limit"
)

func fault(op string, sent bool, err error) error {
	return &limit.StoreError{Store: "mongodb", Op: op, Sent: sent, Err: err}
}

// Codes of errors by which a server refuses a command as a whole.
const (
	unauthorized         = 13
	authenticationFailed = 18
	notWritablePrimary   = 10107
)

// unsent reports whether err says that a command had no effect for certain.
func unsent(err error) bool {
	if e, ok := errors.AsType[mongo.CommandError](err); ok {
		return e.Code == unauthorized || e.Code == authenticationFailed || e.Code == notWritablePrimary
	}
	// Had a command gone out before, this would be a CommandError.
	_, noServer := errors.AsType[topology.ServerSelectionError](err)
	_, noTurn := errors.AsType[topology.WaitQueueTimeoutError](err)
	_, noConnection := errors.AsType[topology.ConnectionError](err)
	return noServer || noTurn || noConnection
}

// explain says in a line what the driver says in many words, and what to do.
func (s *Store) explain(err error) error {
	if e, ok := errors.AsType[topology.ServerSelectionError](err); ok {
		var hosts []string
		for _, server := range e.Desc.Servers {
			switch {
			case server.LastError != nil:
				hosts = append(hosts, server.LastError.Error())
			case server.Kind == 0:
				hosts = append(hosts, fmt.Sprintf("%s says nothing", server.Addr))
			default:
				hosts = append(hosts, fmt.Sprintf("%s is %v", server.Addr, server.Kind))
			}
		}
		return fmt.Errorf("no primary answers: %w: %s", e.Wrapped, strings.Join(hosts, "; "))
	}
	if e, ok := errors.AsType[mongo.CommandError](err); ok {
		switch e.Code {
		case authenticationFailed:
			return errors.New("the server does not accept the URL's user and password; name the database that the user belongs to as authSource, if it is another one")
		case unauthorized:
			return fmt.Errorf("%w; grant the user the role readWrite on the database %s", err, s.states.Database().Name())
		case notWritablePrimary:
			return fmt.Errorf("%w; name all hosts of the replica set and leave out directConnection", err)
		}
	}
	return err
}
