package mongodb_test

import (
	"context"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
)

// byHand is what people do in mongosh where others run SQL.
var byHand = map[string]func(ctx context.Context, c *mongo.Collection) error{
	"INSERT INTO stint_rule (path, calls, period_ms) VALUES ('/entity/#', 10, 60000)":    insert(bson.D{{Key: "path", Value: "/entity/#"}, {Key: "calls", Value: 10.0}, {Key: "period_ms", Value: int32(60_000)}}),
	"UPDATE stint_rule SET calls = 20, name = 'entity' WHERE path = '/entity/#'":         set("path", "/entity/#", bson.D{{Key: "calls", Value: 20}, {Key: "name", Value: "entity"}}),
	"UPDATE stint_rule SET enabled = FALSE WHERE name = 'entity'":                        set("name", "entity", bson.D{{Key: "enabled", Value: false}}),
	"UPDATE stint_rule SET calls = 2":                                                    set("path", "/x", bson.D{{Key: "calls", Value: 2}}),
	"INSERT INTO stint_rule (rule) VALUES ('name: a\nlimits: [{quota: 1, window: 1m}]')": insert(bson.D{{Key: "rule", Value: "name: a\nlimits: [{quota: 1, window: 1m}]"}}),
	"DELETE FROM stint_rule WHERE rule IS NOT NULL": func(ctx context.Context, c *mongo.Collection) error {
		_, err := c.DeleteMany(ctx, bson.D{{Key: "rule", Value: bson.D{{Key: "$exists", Value: true}}}})
		return err
	},
}

func insert(d bson.D) func(ctx context.Context, c *mongo.Collection) error {
	return func(ctx context.Context, c *mongo.Collection) error {
		_, err := c.InsertOne(ctx, d)
		return err
	}
}

func set(field, value string, to bson.D) func(ctx context.Context, c *mongo.Collection) error {
	return func(ctx context.Context, c *mongo.Collection) error {
		_, err := c.UpdateOne(ctx, bson.D{{Key: field, Value: value}}, bson.D{{Key: "$set", Value: to}})
		return err
	}
}

func (d *databases) rules() rulestest.Harness {
	reopen := func(t testing.TB) (rules.Source, io.Closer) {
		s := open(t, d.last, nil)
		return s.Rules(), s
	}
	return rulestest.Harness{
		Open: func(t testing.TB) (rules.Source, io.Closer) {
			d.ready(t)
			return reopen(t)
		},
		Reopen: reopen,
		Session: func(t testing.TB) func(sql string) {
			c := d.raw().Collection("stint_rule")
			return func(sql string) {
				do, ok := byHand[sql]
				if !ok {
					t.Fatalf("nobody has said what %q is in mongosh", sql)
				}
				if err := do(context.Background(), c); err != nil {
					t.Fatal(err)
				}
			}
		},
		Schemaless: true,
		Break: func(testing.TB) (repair func()) {
			d.wire.Cut()
			return d.wire.Mend
		},
	}
}

func TestRules(t *testing.T) { rulestest.Run(t, start(t).rules()) }
