package mongodb

import (
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/stint-dev/stint/limit/algo"
)

// WithClock makes now the clock in place of the server's.
func (o *Options) WithClock(now func() algo.Ticks) *Options {
	o.now = now
	return o
}

// Through makes s reach its collection through client.
func (s *Store) Through(client *mongo.Client) {
	s.states = client.Database(s.states.Database().Name()).Collection(collection)
}
