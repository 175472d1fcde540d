package mongodb

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	collection = "stint_state"
	indexName  = "stint_expire"
	// schemaID is the _id of the document that holds the schema's version. It
	// is no binary value, so no key has it. The version says what documents mean;
	// a program that knows nothing of a collection leaves it alone, so one more is
	// no other version.
	schemaID = "stint"
	schema   = 1
)

// step is a command that makes a part of the schema, unless it is there.
type step struct {
	makes   string
	command bson.D
}

func steps() []step {
	return []step{
		{
			makes: "collection " + collection + " with the TTL index " + indexName,
			command: bson.D{
				{Key: "createIndexes", Value: collection},
				{Key: "indexes", Value: bson.A{bson.D{
					{Key: "key", Value: bson.D{{Key: "expire", Value: 1}}},
					{Key: "name", Value: indexName},
					{Key: "expireAfterSeconds", Value: 60},
				}}},
			},
		},
		{
			makes: fmt.Sprintf("schema version %d", schema),
			command: bson.D{
				{Key: "update", Value: collection},
				{Key: "updates", Value: bson.A{bson.D{
					{Key: "q", Value: bson.D{{Key: "_id", Value: schemaID}}},
					{Key: "u", Value: bson.D{{Key: "$setOnInsert", Value: bson.D{{Key: "schema", Value: schema}}}}},
					{Key: "upsert", Value: true},
				}}},
			},
		},
		{
			makes: "collection " + ruleCollection + " with unique indexes on id, name and path",
			command: bson.D{
				{Key: "createIndexes", Value: ruleCollection},
				{Key: "indexes", Value: bson.A{unique("id", ruleID), unique("name", ruleName), unique("path", rulePath)}},
			},
		},
		{
			makes: "collection " + changeCollection + " with the index " + changeRow,
			command: bson.D{
				{Key: "createIndexes", Value: changeCollection},
				{Key: "indexes", Value: bson.A{bson.D{
					{Key: "key", Value: bson.D{{Key: "id", Value: 1}, {Key: "_id", Value: -1}}},
					{Key: "name", Value: changeRow},
				}}},
			},
		},
		{
			makes: "collection " + countCollection,
			command: bson.D{
				{Key: "update", Value: countCollection},
				{Key: "updates", Value: bson.A{bson.D{
					{Key: "q", Value: bson.D{{Key: "_id", Value: schemaID}}},
					{Key: "u", Value: bson.D{{Key: "$setOnInsert", Value: bson.D{{Key: "n", Value: int64(0)}, {Key: "id", Value: int64(0)}}}}},
					{Key: "upsert", Value: true},
				}}},
			},
		},
	}
}

// unique is an index by which no two documents that have a field have one value in it.
func unique(field, name string) bson.D {
	return bson.D{
		{Key: "key", Value: bson.D{{Key: field, Value: 1}}},
		{Key: "name", Value: name},
		{Key: "unique", Value: true},
		{Key: "sparse", Value: true},
	}
}

// Script returns what Migrate would do, as statements for mongosh, to be run
// on the database that the store is to use.
func Script() string {
	var b strings.Builder
	for _, step := range steps() {
		command, err := bson.MarshalExtJSONIndent(step.command, false, false, "", "  ")
		if err != nil {
			panic(err) // the commands are constant
		}
		fmt.Fprintf(&b, "// %s\ndb.runCommand(%s)\n", step.makes, command)
	}
	return b.String()
}

// Migrate makes the database that url names ready for [Open], and returns what
// it has made: nothing the second time. It can be run by several nodes at once
// and while others use the store. The user needs the role readWrite.
func Migrate(ctx context.Context, url string) (done []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := connect(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, step := range steps() {
		var answer struct {
			Before   int   `bson:"numIndexesBefore"`
			After    int   `bson:"numIndexesAfter"`
			Upserted []any `bson:"upserted"`
		}
		if err := s.states.Database().RunCommand(ctx, step.command).Decode(&answer); err != nil {
			return done, fault("migrate "+s.address, true, s.explain(err))
		}
		if answer.Before != answer.After || len(answer.Upserted) > 0 {
			done = append(done, step.makes)
		}
	}
	if err := s.check(ctx); err != nil {
		return done, fault("migrate "+s.address, true, s.explain(err))
	}
	return done, nil
}

func checkSchema(version int) error {
	if version > schema {
		return fmt.Errorf("the collection %s has schema version %d and this program knows %d; run a newer stint", collection, version, schema)
	}
	return nil
}
