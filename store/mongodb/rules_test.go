package mongodb_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

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

// TestRulesByHand checks what becomes of what people may write, beside what the
// suite has of them.
func TestRulesByHand(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		name string
		in   bson.D
		want rules.Row
	}{
		{"an id", bson.D{{Key: "id", Value: 7.0}, {Key: "path", Value: "/x"}, {Key: "calls", Value: int64(1)}, {Key: "period_ms", Value: 1000}},
			rules.Row{ID: 7, Enabled: true, Path: "/x", Calls: 1, PeriodMS: 1000}},
		{"an id that is none", bson.D{{Key: "id", Value: "seven"}, {Key: "path", Value: "/x"}, {Key: "calls", Value: 1}, {Key: "period_ms", Value: 1000}},
			rules.Row{ID: 1, Enabled: true, Path: "/x", Calls: 1, PeriodMS: 1000}},
		{"no calls", bson.D{{Key: "path", Value: "/x"}, {Key: "period_ms", Value: 1000}}, rules.Row{ID: 1, Enabled: true, Path: "/x", Calls: -1, PeriodMS: 1000}},
		{"numbers that are none", bson.D{{Key: "path", Value: "/x"}, {Key: "calls", Value: 1.5}, {Key: "period_ms", Value: "1m"}},
			rules.Row{ID: 1, Enabled: true, Path: "/x", Calls: -1, PeriodMS: -1}},
		{"a rule as a document", bson.D{{Key: "enabled", Value: 0}, {Key: "rule", Value: bson.D{{Key: "name", Value: "x"}, {Key: "limits", Value: bson.A{bson.D{{Key: "quota", Value: 30}, {Key: "window", Value: "1m"}}}}}}},
			rules.Row{ID: 1, Rule: `{"name":"x","limits":[{"quota":30,"window":"1m"}]}`}},
		{"a field of Stint's", bson.D{{Key: "name", Value: "x"}, {Key: "rule", Value: "{}"}, {Key: "stint", Value: 5}}, rules.Row{ID: 1, Enabled: true, Name: "x", Rule: "{}"}},
		{"nothing", bson.D{}, rules.Row{ID: 1, Enabled: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := d.store(t, nil).Rules()
			if err := insert(c.in)(t.Context(), d.raw().Collection("stint_rule")); err != nil {
				t.Fatal(err)
			}
			rows, err := source.List(t.Context(), 0, 10)
			if err != nil || len(rows) != 1 {
				t.Fatalf("rows %+v, %v; want one", rows, err)
			}
			c.want.Revision, c.want.Modified = rows[0].Revision, rows[0].Modified
			if rows[0] != c.want || rows[0].Revision == 0 || rows[0].Modified.IsZero() {
				t.Errorf("got %+v, want %+v", rows[0], c.want)
			}
			if next, err := source.Put(t.Context(), rules.Row{Rule: "{}"}, "ann"); err != nil || next.ID != c.want.ID+1 {
				t.Errorf("the next row is %+v, %v; want the id %d", next, err, c.want.ID+1)
			}
		})
	}
}

// TestRulesByHandMeanwhile counts up by hand and by Put at once: whoever puts must
// not undo what people have done since it was read.
func TestRulesByHandMeanwhile(t *testing.T) {
	d := start(t)
	source := d.store(t, nil).Rules()
	other := open(t, d.last, nil)
	defer other.Close()
	row, err := source.Put(t.Context(), rules.Row{Enabled: true, Path: "/x", PeriodMS: 1000}, "ann")
	if err != nil {
		t.Fatal(err)
	}
	const each = 20
	var wg sync.WaitGroup
	for _, s := range []rules.Source{source, other.Rules()} {
		wg.Go(func() {
			for n := 0; n < each; {
				row, err := s.Get(t.Context(), row.ID)
				if err == nil {
					row.Calls++
					_, err = s.Put(t.Context(), row, "ann")
				}
				switch {
				case err == nil:
					n++
				case !errors.Is(err, rules.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			c := d.raw().Collection("stint_rule")
			for range each {
				if _, err := c.UpdateOne(t.Context(), bson.D{{Key: "id", Value: row.ID}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "calls", Value: 1}}}}); err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Millisecond) // so that some are between a Get and its Put
			}
		})
	}
	wg.Wait()
	if row, err = source.Get(t.Context(), row.ID); err != nil || row.Calls != 4*each {
		t.Errorf("counted up to %d, %v; want %d", row.Calls, err, 4*each)
	}
}

// TestRulesHalfway puts rows into the state in which a process leaves them that
// dies in the midst of a change. The next one must end it, and only once.
func TestRulesHalfway(t *testing.T) {
	d := start(t)
	for _, deleted := range []bool{false, true} {
		source := d.store(t, nil).Rules()
		row, err := source.Put(t.Context(), rules.Row{Enabled: true, Path: "/x", Calls: 1, PeriodMS: 1000}, "ann")
		if err != nil {
			t.Fatal(err)
		}
		var entry bson.D
		past := d.raw().Collection("stint_rule_change")
		if err := past.FindOneAndDelete(t.Context(), bson.D{}).Decode(&entry); err != nil {
			t.Fatal(err)
		}
		change := bson.D{{Key: "$set", Value: bson.D{{Key: "stint.pending", Value: bson.A{entry}}, {Key: "stint.deleted", Value: deleted}}}}
		if deleted {
			change = append(change, bson.E{Key: "$unset", Value: bson.D{{Key: "path", Value: ""}, {Key: "calls", Value: ""}}})
		}
		table := d.raw().Collection("stint_rule")
		if _, err := table.UpdateOne(t.Context(), bson.D{}, change); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			changes, err := source.History(t.Context(), rules.HistoryQuery{Limit: 10})
			if err != nil || len(changes) != 1 || changes[0].By != "ann" || changes[0].Row != row {
				t.Errorf("deleted %v: the history is %+v, %v; want what was put, once", deleted, changes, err)
			}
		}
		there := int64(1)
		if deleted {
			there = 0
		}
		if n, err := table.CountDocuments(t.Context(), bson.D{{Key: "stint.pending", Value: nil}}); err != nil || n != there {
			t.Errorf("deleted %v: %d documents are settled, %v; want %d", deleted, n, err, there)
		}
		if n, err := table.CountDocuments(t.Context(), bson.D{}); err != nil || n != there {
			t.Errorf("deleted %v: %d documents, %v; want %d", deleted, n, err, there)
		}
	}
}

func TestRulesWithoutCollections(t *testing.T) {
	d := start(t)
	s := d.store(t, nil)
	if err := d.raw().Collection("stint_rule").Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Rules().Version(t.Context())
	want := "mongodb: version: the collection stint_rule is missing or has not its unique indexes; run: stint migrate --store " + d.address()
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRules(t *testing.T) { rulestest.Run(t, start(t).rules()) }
