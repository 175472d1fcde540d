package mongodb

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// The collections that rules are in, and the indexes by which no two rows have
// one id, one name or one path.
const (
	ruleCollection   = "stint_rule"
	changeCollection = "stint_rule_change"
	countCollection  = "stint_rule_count"

	ruleID   = "stint_rule_id"
	ruleName = "stint_rule_name"
	rulePath = "stint_rule_path"
	// changeRow has the changes of a row in their order.
	changeRow = "stint_rule_change_row"
)

// Rules returns a [rules.Source] in the database of s, whose connections it uses.
// It ends with s. [Migrate] makes its collections.
//
// There are no triggers. What people have changed is told by comparison: beside
// the fields that they edit a document has those that Stint has seen, and the
// server says in which documents the two differ. Whoever asks first takes note of
// that, and gives the document a revision and, if it has none, an id. So Version
// reads all rows where they are, and sends a few numbers.
//
// There are no transactions either. A change goes into the row along with what
// the history is to have of it, in one write, then into the history, and only
// then out of the row. Whoever comes upon a row where that has stopped halfway
// goes on with it. So the history has neither more nor less than what happened. A
// row that is deleted is empty until the history has that.
func (s *Store) Rules() rules.Source {
	in := s.states.Database().Collection
	return &source{store: s, rows: in(ruleCollection), changes: in(changeCollection), counts: in(countCollection)}
}

// source is a [rules.Source].
type source struct {
	store                 *Store
	rows, changes, counts *mongo.Collection
	ready                 atomic.Bool // the collections are what Migrate leaves behind
}

// isRuleAnswer reports whether err is no fault of the database.
func isRuleAnswer(err error) bool {
	return errors.Is(err, rules.ErrNoRow) || errors.Is(err, rules.ErrChanged) || errors.Is(err, rules.ErrNameTaken) || errors.Is(err, rules.ErrPathTaken)
}

// do calls f, once the rows are settled, and returns its error as op's. write says
// that f changes a row. f is told what they are in total.
func (r *source) do(ctx context.Context, op string, write bool, f func(settled total) error) error {
	if err := r.store.enter(ctx, op); err != nil {
		err = errors.Unwrap(err)
		if errors.Is(err, limit.ErrClosed) {
			err = rules.ErrSourceClosed
		}
		return &rules.SourceError{Store: "mongodb", Op: op, Err: err}
	}
	defer r.store.inside.RUnlock()
	sum, err := r.settle(ctx)
	sent := false
	if err == nil {
		err = f(sum)
		sent = write && !unsent(err)
	}
	if err == nil || isRuleAnswer(err) {
		return err
	}
	return &rules.SourceError{Store: "mongodb", Op: op, Sent: sent, Err: r.store.explain(err)}
}

// check returns why the collections cannot be worked with.
func (r *source) check(ctx context.Context) error {
	if r.ready.Load() {
		return nil
	}
	indexes, err := r.rows.Indexes().ListSpecifications(ctx)
	if err != nil {
		return err
	}
	unique := map[string]bool{}
	for _, i := range indexes {
		unique[i.Name] = i.Unique != nil && *i.Unique
	}
	if !unique[ruleID] || !unique[ruleName] || !unique[rulePath] {
		return fmt.Errorf("the collection %s is missing or has not its unique indexes; run: stint migrate --store %s", ruleCollection, r.store.address)
	}
	r.ready.Store(true)
	return nil
}

// Version implements [rules.Source].
func (r *source) Version(ctx context.Context) (version int64, err error) {
	err = r.do(ctx, "version", false, func(sum total) error {
		version = sum.version()
		return nil
	})
	return version, err
}

// List implements [rules.Source].
func (r *source) List(ctx context.Context, after int64, limit int) (rows []rules.Row, err error) {
	err = r.do(ctx, "list", false, func(total) error {
		answer, err := r.rows.Find(ctx, bson.D{{Key: "id", Value: bson.D{{Key: "$gt", Value: after}}}, isThere},
			options.Find().SetSort(bson.D{{Key: "id", Value: 1}}).SetLimit(int64(limit)))
		if err != nil {
			return err
		}
		var all []bson.Raw
		if err := answer.All(ctx, &all); err != nil {
			return err
		}
		rows = make([]rules.Row, len(all))
		for i, raw := range all {
			d := ruleDocument{raw}
			rows[i] = d.row()
		}
		return nil
	})
	return rows, err
}

// Get implements [rules.Source].
func (r *source) Get(ctx context.Context, id int64) (row rules.Row, err error) {
	err = r.do(ctx, "get", false, func(total) error {
		d, err := r.find(ctx, id)
		if err == nil {
			row = d.row()
		}
		return err
	})
	return row, err
}

// find returns a document by its id, or ErrNoRow.
func (r *source) find(ctx context.Context, id int64) (ruleDocument, error) {
	var d ruleDocument
	err := r.rows.FindOne(ctx, bson.D{{Key: "id", Value: id}, isThere}).Decode(&d.raw)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = rules.ErrNoRow
	}
	return d, err
}

// Put implements [rules.Source].
func (r *source) Put(ctx context.Context, row rules.Row, by string) (put rules.Row, err error) {
	if err := errors.Join(row.Check(), rules.CheckBy(by)); err != nil {
		return rules.Row{}, err
	}
	err = r.do(ctx, "put", true, func(total) error {
		found, err := r.expect(ctx, row.ID, row.Revision)
		if err != nil {
			return err
		}
		put, err = r.put(ctx, found, row, by)
		return err
	})
	if err != nil {
		return rules.Row{}, err
	}
	return put, nil
}

// put writes a row in place of found, which has no raw if there is none.
func (r *source) put(ctx context.Context, found ruleDocument, row rules.Row, by string) (rules.Row, error) {
	for anyID := row.ID == 0; ; {
		next, err := r.count(ctx, &row, anyID)
		if err != nil {
			return rules.Row{}, err
		}
		row.Revision, row.Modified, row.By = next, found.after(row.Modified), by
		stint := noting(found, row, false)
		set := append(columns(&row), bson.E{Key: "stint", Value: stint})
		if found.raw != nil {
			err = r.replace(ctx, found, bson.D{{Key: "$set", Value: set}, {Key: "$unset", Value: absent(&row)}})
		} else {
			err = r.insert(ctx, set)
		}
		if anyID && errors.Is(err, rules.ErrChanged) {
			continue // somebody has chosen that id
		}
		if err != nil {
			return rules.Row{}, err
		}
		r.finish(ctx, row.ID)
		return row, nil
	}
}

// Delete implements [rules.Source].
func (r *source) Delete(ctx context.Context, id, revision int64, by string) error {
	if err := rules.CheckBy(by); err != nil {
		return err
	}
	return r.do(ctx, "delete", true, func(total) error {
		found, err := r.expect(ctx, id, revision)
		if err != nil {
			return err
		}
		if found.raw == nil {
			return rules.ErrNoRow
		}
		row := found.row()
		if row.Revision, err = r.count(ctx, &row, false); err != nil {
			return err
		}
		row.Modified, row.By = found.after(row.Modified), by
		stint := noting(found, row, true)
		err = r.replace(ctx, found, bson.D{
			{Key: "$set", Value: bson.D{{Key: "stint", Value: stint}}},
			{Key: "$unset", Value: absent(&rules.Row{})},
		})
		if err != nil {
			return err
		}
		r.finish(ctx, row.ID)
		return nil
	})
}

// expect returns the document with an id, which must have this revision; one
// without raw, if there is none and none is expected.
func (r *source) expect(ctx context.Context, id, revision int64) (ruleDocument, error) {
	found, err := r.find(ctx, id)
	switch {
	case errors.Is(err, rules.ErrNoRow) && revision == 0:
		return ruleDocument{}, nil
	case err != nil:
		return ruleDocument{}, err
	case found.revision() != revision:
		return ruleDocument{}, rules.ErrChanged
	}
	return found, nil
}

func (r *source) insert(ctx context.Context, document bson.D) error {
	_, err := r.rows.InsertOne(ctx, document)
	if mongo.IsDuplicateKeyError(err) {
		return taken(err)
	}
	return err
}

// replace changes a document that is still what it was when it was found, and of
// which Stint had seen everything.
func (r *source) replace(ctx context.Context, found ruleDocument, change bson.D) error {
	settled := bson.D{{Key: "$not", Value: bson.A{isOdd}}}
	result, err := r.rows.UpdateOne(ctx, append(found.version(), bson.E{Key: "$expr", Value: settled}), change)
	switch {
	case mongo.IsDuplicateKeyError(err):
		return taken(err)
	case err == nil && result.MatchedCount == 0:
		return rules.ErrChanged
	}
	return err
}

// finish does what is left of a change that is made. If it fails, whoever comes
// upon the row does it: the change is made all the same.
func (r *source) finish(ctx context.Context, id int64) {
	var d ruleDocument
	if r.rows.FindOne(ctx, bson.D{{Key: "id", Value: id}}).Decode(&d.raw) == nil {
		_ = r.record(ctx, d)
	}
}

// taken says which of its unique fields a row has in common with another one.
func taken(err error) error {
	_, index, _ := strings.Cut(err.Error(), " index: ")
	switch index, _, _ = strings.Cut(index, " "); index {
	case ruleName:
		return rules.ErrNameTaken
	case rulePath:
		return rules.ErrPathTaken
	case ruleID:
		return rules.ErrChanged
	}
	return err
}

// count returns the number of the next change, which is greater than those of all
// changes before, and sets row.Modified to the server's clock. With next set,
// row.ID becomes the next id; otherwise no next one will be row.ID.
//
// Numbers that are not used stay gaps. One less is free for what was found.
func (r *source) count(ctx context.Context, row *rules.Row, next bool) (n int64, err error) {
	update := bson.D{
		{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(2)}}},
		{Key: "$max", Value: bson.D{{Key: "id", Value: row.ID}}},
		{Key: "$currentDate", Value: bson.D{{Key: "at", Value: true}}},
	}
	if next {
		update[0].Value = bson.D{{Key: "n", Value: int64(2)}, {Key: "id", Value: int64(1)}}
		update = bson.D{update[0], update[2]}
	}
	var counted struct {
		N, ID int64
		At    bson.DateTime
	}
	err = r.counts.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: schemaID}}, update,
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&counted)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = fmt.Errorf("the collection %s is empty; run: stint migrate --store %s", countCollection, r.store.address)
	}
	if next {
		row.ID = counted.ID
	}
	row.Modified = counted.At.Time().UTC()
	return counted.N, err
}

// History implements [rules.Source].
func (r *source) History(ctx context.Context, q rules.HistoryQuery) (changes []rules.Change, err error) {
	err = r.do(ctx, "history", false, func(total) error {
		filter := bson.D{}
		if q.Row != 0 {
			filter = append(filter, bson.E{Key: "id", Value: q.Row})
		}
		if q.Before != 0 {
			filter = append(filter, bson.E{Key: "_id", Value: bson.D{{Key: "$lt", Value: q.Before}}})
		}
		answer, err := r.changes.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(int64(q.Limit)))
		if err != nil {
			return err
		}
		var all []bson.Raw
		if err := answer.All(ctx, &all); err != nil {
			return err
		}
		changes = make([]rules.Change, len(all))
		for i, raw := range all {
			changes[i] = readChange(raw)
		}
		return nil
	})
	return changes, err
}

// total is what Version is made of. Each change of a row gives it a greater
// revision than there has been, so of as many rows the sum is never the same.
type total struct {
	Rows, Revisions int64
	// Odd counts the rows that people have changed, and changes left halfway.
	Odd int64
}

func (t total) version() int64 {
	h := fnv.New64a()
	fmt.Fprint(h, t.Rows, t.Revisions)
	return int64(h.Sum64())
}

// settle takes note of what people have changed and ends what was left halfway.
func (r *source) settle(ctx context.Context) (sum total, err error) {
	if err := r.check(ctx); err != nil {
		return total{}, err
	}
	for try := 0; ; try++ {
		if sum, err = r.total(ctx); err != nil || sum.Odd == 0 {
			return sum, err
		}
		if try > 0 { // others are at it, too
			if err := pause(ctx, try); err != nil {
				return total{}, err
			}
		}
		answer, err := r.rows.Find(ctx, bson.D{{Key: "$expr", Value: isOdd}}, options.Find().SetLimit(batchLen))
		if err != nil {
			return total{}, err
		}
		var all []bson.Raw
		if err := answer.All(ctx, &all); err != nil {
			return total{}, err
		}
		for _, raw := range all {
			if err := r.tend(ctx, ruleDocument{raw}); err != nil {
				return total{}, err
			}
		}
	}
}

func (r *source) total(ctx context.Context) (sum total, err error) {
	answer, err := r.rows.Aggregate(ctx, bson.A{bson.D{{Key: "$group", Value: bson.D{
		{Key: "_id", Value: nil},
		{Key: "rows", Value: bson.D{{Key: "$sum", Value: 1}}},
		{Key: "revisions", Value: bson.D{{Key: "$sum", Value: "$stint.revision"}}},
		{Key: "odd", Value: bson.D{{Key: "$sum", Value: bson.D{{Key: "$cond", Value: bson.A{isOdd, 1, 0}}}}}},
	}}}})
	if err != nil {
		return total{}, err
	}
	var all []total
	if err := answer.All(ctx, &all); err != nil || len(all) == 0 {
		return total{}, err
	}
	return all[0], nil
}

// tend settles one document, if it is still what it was when it was found.
func (r *source) tend(ctx context.Context, d ruleDocument) error {
	if d.stint("pending").Type == bson.TypeArray {
		return r.record(ctx, d)
	}
	row := d.row()
	n, err := r.count(ctx, &row, row.ID == 0)
	if err != nil {
		return err
	}
	d, was := d.with("id", row.ID), d
	change := bson.D{{Key: "$set", Value: bson.D{
		{Key: "id", Value: row.ID},
		{Key: "stint", Value: bson.D{
			{Key: "seen", Value: d.seen()},
			{Key: "revision", Value: n},
			{Key: "modified", Value: bson.NewDateTimeFromTime(was.after(row.Modified))},
		}},
	}}}
	_, err = r.rows.UpdateOne(ctx, was.same(), change)
	if mongo.IsDuplicateKeyError(err) && errors.Is(taken(err), rules.ErrChanged) {
		return nil // somebody has chosen that id
	}
	return err
}

// record moves what is pending in a document to the history.
func (r *source) record(ctx context.Context, d ruleDocument) error {
	pending, _ := d.stint("pending").ArrayOK()
	changes, err := pending.Values()
	if err != nil {
		return err
	}
	for _, change := range changes {
		if change.Type != bson.TypeEmbeddedDocument {
			continue // it is not Stint's
		}
		// It may be there: somebody else may have stopped behind this.
		if _, err := r.changes.InsertOne(ctx, bson.Raw(change.Value)); err != nil && !mongo.IsDuplicateKeyError(err) {
			return err
		}
	}
	if d.isDeleted() {
		_, err = r.rows.DeleteOne(ctx, d.version())
	} else {
		_, err = r.rows.UpdateOne(ctx, d.version(), bson.D{{Key: "$unset", Value: bson.D{{Key: "stint.pending", Value: ""}}}})
	}
	return err
}

// noting returns what Stint keeps in the document of a row that is changed, with
// what the history is to have of it.
func noting(found ruleDocument, row rules.Row, deleted bool) bson.D {
	var pending bson.A
	if found.raw != nil && found.by() == "" {
		pending = append(pending, change(row.Revision-1, found.row(), false))
	}
	pending = append(pending, change(row.Revision, row, deleted))
	if deleted {
		row = rules.Row{ID: row.ID, Revision: row.Revision, Modified: row.Modified, By: row.By, Enabled: true}
	}
	written, err := bson.Marshal(columns(&row))
	if err != nil {
		panic(err) // a row that was checked can be written
	}
	seen := ruleDocument{written}.seen()
	if deleted {
		seen = ruleDocument{}.with("id", row.ID).seen()
	}
	return bson.D{
		{Key: "seen", Value: seen},
		{Key: "revision", Value: row.Revision},
		{Key: "modified", Value: bson.NewDateTimeFromTime(row.Modified)},
		{Key: "by", Value: row.By},
		{Key: "deleted", Value: deleted},
		{Key: "pending", Value: pending},
	}
}

// change is an entry of the history.
func change(n int64, row rules.Row, deleted bool) bson.D {
	return append(bson.D{{Key: "_id", Value: n}}, append(columns(&row),
		bson.E{Key: "revision", Value: row.Revision},
		bson.E{Key: "at", Value: bson.NewDateTimeFromTime(row.Modified)},
		bson.E{Key: "by", Value: row.By},
		bson.E{Key: "deleted", Value: deleted},
	)...)
}

func readChange(raw bson.Raw) rules.Change {
	row := ruleDocument{raw}.row()
	row.By, _ = raw.Lookup("by").StringValueOK()
	row.Revision, _ = whole(raw.Lookup("revision"))
	row.Modified = instant(raw.Lookup("at"))
	n, _ := whole(raw.Lookup("_id"))
	deleted, _ := raw.Lookup("deleted").BooleanOK()
	return rules.Change{N: n, At: row.Modified, By: row.By, Row: row, Deleted: deleted}
}

func instant(v bson.RawValue) time.Time {
	ms, _ := v.DateTimeOK()
	return time.UnixMilli(ms).UTC()
}
