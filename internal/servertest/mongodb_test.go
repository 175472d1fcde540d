package servertest

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// What a store proves on this server is worth as much as these three are.
func TestMongoDBIsAtomic(t *testing.T) {
	url := os.Getenv(MongoDBURL)
	if url == "" {
		url = StartMongoDB(t).URL
	}
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(t.Context())
	db := client.Database(fmt.Sprintf("servertest_%d", os.Getpid()))
	defer db.Drop(t.Context())
	t.Run("16 clients count to 800", func(t *testing.T) { countTo800(t, db.Collection("count")) })
	t.Run("one of 16 clients wins each version", func(t *testing.T) { winVersions(t, db.Collection("versions")) })
	t.Run("a bulk write names what it could not write", func(t *testing.T) { bulkWrite(t, db.Collection("bulk")) })
}

const clients = 16

// together calls do from all clients at once.
func together(do func()) {
	var wg sync.WaitGroup
	for range clients {
		wg.Go(do)
	}
	wg.Wait()
}

func countTo800(t *testing.T, c *mongo.Collection) {
	together(func() {
		for range 50 {
			if _, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}, options.UpdateOne().SetUpsert(true)); err != nil {
				t.Error(err)
			}
		}
	})
	var got struct{ N int }
	if err := c.FindOne(t.Context(), bson.D{{Key: "_id", Value: 1}}).Decode(&got); err != nil || got.N != 800 {
		t.Errorf("16 clients have counted to 50 each, and together to %d, %v; want 800", got.N, err)
	}
}

func winVersions(t *testing.T, c *mongo.Collection) {
	const versions = 50
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "version", Value: 0}}); err != nil {
		t.Fatal(err)
	}
	var won [versions]atomic.Int64
	together(func() {
		for v := range versions {
			r, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "version", Value: v}}, bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: v + 1}}}})
			if err != nil {
				t.Error(err)
				return
			}
			won[v].Add(r.ModifiedCount)
		}
	})
	for v := range won {
		if n := won[v].Load(); n != 1 {
			t.Errorf("%d clients have changed version %d, want 1", n, v)
		}
	}
}

func bulkWrite(t *testing.T, c *mongo.Collection) {
	upsert := func(id, version int) mongo.WriteModel {
		return mongo.NewUpdateOneModel().SetUpsert(true).
			SetFilter(bson.D{{Key: "_id", Value: id}, {Key: "version", Value: version}}).
			SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: 2}}}})
	}
	if _, err := c.InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}, {Key: "version", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "version", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	models := []mongo.WriteModel{upsert(2, 7), upsert(1, 1), upsert(1, 7), upsert(3, 1)}
	r, err := c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
	failed, ok := err.(mongo.BulkWriteException)
	if !ok {
		t.Fatalf("got %v, want a BulkWriteException", err)
	}
	var at []string
	for _, e := range failed.WriteErrors {
		at = append(at, fmt.Sprintf("%d at %d", e.Code, e.Index))
	}
	if got, want := fmt.Sprint(at), "[11000 at 0 11000 at 2]"; got != want {
		t.Errorf("errors %s, want %s", got, want)
	}
	if _, upserted := r.UpsertedIDs[3]; r.MatchedCount != 1 || len(r.UpsertedIDs) != 1 || !upserted {
		t.Errorf("%d matched, %v upserted; want 1 matched and the last one upserted", r.MatchedCount, r.UpsertedIDs)
	}
}
