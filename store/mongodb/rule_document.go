package mongodb

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/stint-dev/stint/rules"
)

// ruleFields are those that people edit, and id, which they may give.
var ruleFields = []string{"id", "name", "enabled", "rule", "path", "calls", "period_ms"}

// isThere is true of documents that are rows: one that is deleted is none, though
// the history may not have it yet.
var isThere = bson.E{Key: "stint.deleted", Value: bson.D{{Key: "$ne", Value: true}}}

// isOdd is true of documents that have to be tended: those with a change that was
// left halfway, and those of which Stint has seen something else. A field that is
// null or not there is as good as "".
var isOdd = func() bson.D {
	odd := bson.A{bson.D{{Key: "$isArray", Value: bson.A{"$stint.pending"}}}}
	for _, field := range ruleFields {
		odd = append(odd, bson.D{{Key: "$ne", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$" + field, ""}}}, "$stint.seen." + field}}})
	}
	return bson.D{{Key: "$or", Value: odd}}
}()

// ruleDocument is a row as the collection has it. What Stint keeps of it is in its
// field stint; everything else people may have written, so it can be anything.
type ruleDocument struct{ raw bson.Raw }

// field returns a field, which is null if there is none.
func (d ruleDocument) field(name ...string) bson.RawValue {
	if v := d.raw.Lookup(name...); v.Type != 0 && v.Type != bson.TypeUndefined {
		return v
	}
	return bson.RawValue{Type: bson.TypeNull}
}

// stint returns a field of those that Stint keeps.
func (d ruleDocument) stint(name string) bson.RawValue { return d.field("stint", name) }

func (d ruleDocument) revision() int64 {
	n, _ := whole(d.stint("revision"))
	return n
}

func (d ruleDocument) by() string {
	by, _ := d.stint("by").StringValueOK()
	return by
}

func (d ruleDocument) isDeleted() bool {
	deleted, _ := d.stint("deleted").BooleanOK()
	return deleted
}

// seen is what Stint keeps of d to compare it with.
func (d ruleDocument) seen() (fields bson.D) {
	for _, name := range ruleFields {
		if v := d.field(name); v.Type != bson.TypeNull {
			fields = append(fields, bson.E{Key: name, Value: v})
		} else {
			fields = append(fields, bson.E{Key: name, Value: ""})
		}
	}
	return fields
}

// with returns d with another field id.
func (d ruleDocument) with(name string, id int64) ruleDocument {
	changed := bson.D{{Key: name, Value: id}}
	for _, field := range ruleFields {
		if v := d.field(field); field != name && v.Type != bson.TypeNull {
			changed = append(changed, bson.E{Key: field, Value: v})
		}
	}
	raw, err := bson.Marshal(changed)
	if err != nil {
		panic(err) // it was read
	}
	return ruleDocument{raw}
}

// version is a filter that finds d as long as it has this revision.
func (d ruleDocument) version() bson.D {
	return bson.D{{Key: "_id", Value: d.raw.Lookup("_id")}, {Key: "stint.revision", Value: d.stint("revision")}}
}

// same is a filter that finds d as long as nobody has changed it.
func (d ruleDocument) same() bson.D {
	same := bson.D{{Key: "_id", Value: d.raw.Lookup("_id")}}
	equal := func(name string, v bson.RawValue) {
		same = append(same, bson.E{Key: name, Value: bson.D{{Key: "$eq", Value: v}}})
	}
	for _, name := range ruleFields {
		equal(name, d.field(name))
	}
	equal("stint.revision", d.stint("revision"))
	equal("stint.pending", d.stint("pending"))
	return same
}

// after returns now, or the first instant behind the last change if that is later.
func (d ruleDocument) after(now time.Time) time.Time {
	if ms, ok := d.stint("modified").DateTimeOK(); ok {
		if next := time.UnixMilli(ms + 1).UTC(); next.After(now) {
			return next
		}
	}
	return now
}

// row reads d. What has a type that its field may not have becomes what
// [rules.Row.Check] refuses, except enabled, which is then true.
func (d ruleDocument) row() rules.Row {
	row := rules.Row{Enabled: true, Revision: d.revision(), Modified: instant(d.stint("modified")), By: d.by()}
	if id, ok := whole(d.field("id")); ok && id > 0 {
		row.ID = id
	}
	row.Name = text(d.field("name"))
	row.Path, _ = d.field("path").StringValueOK()
	row.Rule = text(d.field("rule"))
	enabled := d.field("enabled")
	if on, ok := enabled.BooleanOK(); ok {
		row.Enabled = on
	} else if n, ok := whole(enabled); ok {
		row.Enabled = n != 0
	}
	calls, period := d.field("calls"), d.field("period_ms")
	var ok bool
	if row.Calls, ok = whole(calls); !ok && (calls.Type != bson.TypeNull || row.Path != "") {
		row.Calls = -1
	}
	if row.PeriodMS, ok = whole(period); !ok && period.Type != bson.TypeNull {
		row.PeriodMS = -1
	}
	return row
}

// text is a text, and what is none as JSON: so a rule may be a document, too.
func text(v bson.RawValue) string {
	switch s, ok := v.StringValueOK(); {
	case ok:
		return s
	case v.Type == bson.TypeNull:
		return ""
	case v.Type == bson.TypeEmbeddedDocument:
		if json, err := bson.MarshalExtJSON(v.Document(), false, false); err == nil {
			return string(json)
		}
	}
	return v.String()
}

// whole reads a number of any type that has no fraction: what people type into
// mongosh is a double or an int as it happens.
func whole(v bson.RawValue) (int64, bool) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return v.AsInt64OK()
	case bson.TypeDouble:
		if f := v.Double(); f >= -1<<53 && f <= 1<<53 && f == float64(int64(f)) {
			return int64(f), true
		}
	}
	return 0, false
}

// columns are the fields of a row that it has.
func columns(row *rules.Row) bson.D {
	fields := bson.D{{Key: "id", Value: row.ID}, {Key: "enabled", Value: row.Enabled}}
	add := func(name, text string) {
		if text != "" {
			fields = append(fields, bson.E{Key: name, Value: text})
		}
	}
	add("name", row.Name)
	add("rule", row.Rule)
	add("path", row.Path)
	if row.IsPlain() {
		fields = append(fields, bson.E{Key: "calls", Value: row.Calls}, bson.E{Key: "period_ms", Value: row.PeriodMS})
	}
	return fields
}

// absent are the fields that people edit which a row does not have.
func absent(row *rules.Row) bson.D {
	has := map[string]bool{}
	if row.ID != 0 {
		for _, field := range columns(row) {
			has[field.Key] = true
		}
	}
	var fields bson.D
	for _, name := range ruleFields {
		if name != "id" && !has[name] {
			fields = append(fields, bson.E{Key: name, Value: ""})
		}
	}
	return fields
}
