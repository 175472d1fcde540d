package mongodb

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// duplicateKey is the code of the error that an insert got whose _id there is.
const duplicateKey = 11000

// Swap implements [limit.Swapper]. It takes one trip for a thousand cells that
// are loaded, one for a thousand that are committed, after one for the clock,
// and one more if somebody else was faster with some of them.
func (s *Store) Swap(ctx context.Context, cells []limit.Cell) (now algo.Ticks, err error) {
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = c.Key
	}
	if err := s.enter(ctx, "swap", keys...); err != nil {
		return 0, err
	}
	defer s.inside.RUnlock()
	var dirty, clean []*limit.Cell
	for i := range cells {
		if c := &cells[i]; c.Dirty {
			dirty = append(dirty, c)
		} else {
			clean = append(clean, c)
		}
	}
	if now, err = s.load(ctx, clean); err != nil {
		return 0, fault("swap", false, err)
	}
	sent := false
	for some := range slices.Chunk(dirty, batchLen) {
		if err := s.commit(ctx, now, some); err != nil {
			return 0, fault("swap", sent || !unsent(err), err)
		}
		sent = true
	}
	lost := slices.DeleteFunc(dirty, func(c *limit.Cell) bool { return c.Dirty })
	if len(lost) > 0 {
		if now, err = s.load(ctx, lost); err != nil {
			return 0, fault("swap", true, err)
		}
	}
	return now, nil
}

// load sets the State and Version of cells to the store's.
func (s *Store) load(ctx context.Context, cells []*limit.Cell) (now algo.Ticks, err error) {
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = c.Key
	}
	found, err := s.look(ctx, keys)
	if err != nil {
		return 0, err
	}
	for i, c := range found.cells(keys, found.clock) {
		*cells[i] = c
	}
	return found.clock, nil
}

// commit writes those of cells, at most batchLen, whose Version is the store's,
// and sets it to the new one. The others are no longer Dirty.
func (s *Store) commit(ctx context.Context, now algo.Ticks, cells []*limit.Cell) error {
	models, versions := make([]mongo.WriteModel, len(cells)), make([]int64, len(cells))
	for i, c := range cells {
		models[i], versions[i] = compareAndSet(c, now)
	}
	result, err := s.states.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	failed, partly := errors.AsType[mongo.BulkWriteException](err)
	if err != nil && (!partly || failed.WriteConcernError != nil) {
		return err
	}
	for _, e := range failed.WriteErrors {
		if e.Code != duplicateKey {
			return err
		}
		cells[e.Index].Dirty = false
	}
	for i, c := range cells {
		if _, inserted := result.UpsertedIDs[int64(i)]; inserted && c.Version != 0 {
			c.Dirty = false // the document was gone, and this one is a ghost
		}
		if c.Version = versions[i]; c.TTL <= 0 {
			c.Version = 0
		}
	}
	return nil
}

// compareAndSet returns what writes c if its Version is the store's, and the
// Version that it gets.
//
// Where it is not, the filter finds nothing. Then the update is an insert, so
// that the answer says which one it was: it fails if there is a document with
// the key, and makes a ghost if there is none but should be.
func compareAndSet(c *limit.Cell, now algo.Ticks) (mongo.WriteModel, int64) {
	alive := bson.E{Key: "expire", Value: bson.D{{Key: "$gt", Value: date(now)}}}
	set := bson.D{
		{Key: "expire", Value: expiry(now, c.TTL)},
		{Key: "changed", Value: now},
		{Key: "at", Value: c.State.At},
		{Key: "a", Value: c.State.A},
		{Key: "b", Value: c.State.B},
		{Key: "log", Value: []byte(c.State.Entries())},
	}
	model := mongo.NewUpdateOneModel().SetUpsert(true)
	if c.Version == 0 {
		version := 1<<32 + rand.Int64N(1<<62)
		none := bson.A{bson.D{alive, {Key: "version", Value: bson.D{{Key: "$gt", Value: ghost}}}}}
		return model.
			SetFilter(bson.D{{Key: "_id", Value: id(c.Key)}, {Key: "$nor", Value: none}}).
			SetUpdate(bson.D{{Key: "$set", Value: append(set, bson.E{Key: "version", Value: version})}}), version
	}
	// An insert begins with what its filter says is equal, and a ghost must not
	// begin with this version: hence a range, with one whole number in it.
	same := bson.D{{Key: "$gt", Value: c.Version - 1}, {Key: "$lt", Value: c.Version + 1}}
	return model.
		SetFilter(bson.D{{Key: "_id", Value: id(c.Key)}, {Key: "version", Value: same}, alive}).
		SetUpdate(bson.D{{Key: "$set", Value: set}, {Key: "$inc", Value: bson.D{{Key: "version", Value: int64(ghost)}}}}), c.Version + ghost
}
