package mongodb

import (
	"context"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// batchLen is the most keys that one statement deals with.
const batchLen = 1000

// document is what is kept of a key, or the one that says which schema this is.
type document struct {
	ID bson.RawValue `bson:"_id"`
	// Version begins at random, so that a key which comes back has none of its
	// former ones, and counts up.
	Version int64
	// Expire is what the TTL index goes by. It is rounded up.
	Expire  bson.DateTime
	Changed algo.Ticks // when
	At      algo.Ticks
	A, B    int64
	Log     []byte

	Schema int           // of the schema's document
	Now    bson.DateTime // the server's clock, in an answer
}

// ghost is the version of a document that is none: an update of a document
// that was gone has made it. The TTL index removes it.
const ghost = 1

func (d document) alive(now algo.Ticks) bool {
	return d.Version > ghost && d.Expire > date(now)
}

func (d document) state() algo.State {
	return algo.State{At: d.At, A: d.A, B: d.B}.WithEntries(string(d.Log))
}

// key returns the key whose document d is, or "".
func (d document) key() string {
	_, data, _ := d.ID.BinaryOK()
	return string(data)
}

func id(key string) bson.Binary { return bson.Binary{Data: []byte(key)} }

// date returns the last millisecond that is not after t.
func date(t algo.Ticks) bson.DateTime { return bson.DateTime(t / algo.Millisecond) }

// expiry returns the first millisecond when a State with ttl can be dropped.
func expiry(now, ttl algo.Ticks) bson.DateTime {
	if ttl <= 0 {
		return 0
	}
	const partly = algo.Millisecond - 1
	return date(now + min(ttl, math.MaxInt64-partly-now) + partly)
}

// view is what a look has found.
type view struct {
	clock     algo.Ticks
	documents map[string]document
}

// look reads the documents of keys and then the clock.
//
// The server tells its clock only along with a document, so the schema's comes
// with each answer. It also says whether this is still the schema.
func (s *Store) look(ctx context.Context, keys []string) (view, error) {
	found := view{documents: make(map[string]document, len(keys))}
	var some []string
	for {
		some, keys = keys[:min(len(keys), batchLen-1)], keys[min(len(keys), batchLen-1):]
		if err := s.lookAt(ctx, some, &found); err != nil || len(keys) == 0 {
			return found, err
		}
	}
}

func (s *Store) lookAt(ctx context.Context, keys []string, found *view) error {
	ids := bson.A{schemaID}
	for _, k := range keys {
		ids = append(ids, id(k))
	}
	answer, err := s.states.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}}},
		bson.D{{Key: "$addFields", Value: bson.D{{Key: "now", Value: "$$NOW"}}}},
	}, options.Aggregate().SetBatchSize(batchLen+1))
	if err != nil {
		return err
	}
	var all []document
	if err := answer.All(ctx, &all); err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(d document) bool { return d.Schema != 0 })
	if at < 0 {
		return fmt.Errorf("the collection %s is missing or not complete; run: stint migrate --store %s", collection, s.address)
	}
	if err := checkSchema(all[at].Schema); err != nil {
		return err
	}
	found.clock = algo.Ticks(all[at].Now) * algo.Millisecond
	if s.opts.now != nil {
		found.clock = s.opts.now()
	}
	for _, d := range all {
		if key := d.key(); key != "" {
			found.documents[key] = d
		}
	}
	return nil
}

// cells returns the cells of keys at now.
func (v view) cells(keys []string, now algo.Ticks) []limit.Cell {
	cells := make([]limit.Cell, len(keys))
	for i, key := range keys {
		cells[i].Key = key
		if d := v.documents[key]; d.alive(now) {
			cells[i].State, cells[i].Version = d.state(), d.Version
		}
	}
	return cells
}
