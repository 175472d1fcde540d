package strictjson_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stint-dev/stint/transport/strictjson"
)

// order is a body that has a field of every kind.
type order struct {
	id    string
	count int64
	paid  bool
	lines []string
	notes map[string]string
	until string // "" if it is null
}

func readOrder(body string) (o order, err error) {
	o.notes = make(map[string]string)
	text := func(r *strictjson.Reader, to *string) func() error {
		return r.Text(func(text string) error {
			if *to = text; text == "" {
				return errors.New("empty; 1 byte or more is needed")
			}
			return nil
		})
	}
	err = strictjson.Read([]byte(body), func(r *strictjson.Reader) []strictjson.Field {
		return []strictjson.Field{
			strictjson.Required("id", text(r, &o.id)),
			strictjson.Optional("count", r.Whole(&o.count, 1, 9)),
			strictjson.Optional("paid", r.Bool(&o.paid)),
			strictjson.Optional("lines", func() error {
				return r.Array(func() error {
					var line string
					err := text(r, &line)()
					o.lines = append(o.lines, line)
					return err
				})
			}),
			strictjson.Optional("notes", func() error {
				return r.Pairs(func(name string) error {
					var note string
					err := text(r, &note)()
					o.notes[name] = note
					return err
				})
			}),
			strictjson.Optional("until", func() error {
				if r.Null() {
					return nil
				}
				return text(r, &o.until)()
			}),
		}
	})
	return o, err
}

func TestRead(t *testing.T) {
	o, err := readOrder(`{ "notes":{"a":"\u00e9\n","b":"\ud83d\ude00"}, "id" : "x", "count":9,"paid":true,"lines":["1","2"],"until":null}`)
	if err != nil || o.id != "x" || o.count != 9 || !o.paid || !slices.Equal(o.lines, []string{"1", "2"}) || !maps.Equal(o.notes, map[string]string{"a": "é\n", "b": "😀"}) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := readOrder(`{"until":"noon","id":"x"}`); err != nil || o.until != "noon" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for body, want := range map[string]string{
		``:                               `body: the JSON ends too early, at byte 0`,
		`{"id":"x"`:                      `body: the JSON ends too early, at byte 9`,
		`{"id":"x",}`:                    `body: not JSON at byte 10`,
		`{"id":"x"}{}`:                   `body: something follows the JSON object; send one object`,
		`[]`:                             `body: [; an object is needed`,
		`{}`:                             `id: missing; it is needed`,
		`{"id":"x","id":"y"}`:            `id: given twice`,
		`{"id":"x","i\u0064":"y"}`:       `id: given twice`,
		`{"id":"x","Id":"y"}`:            `Id: unknown field; id, count, paid, lines, notes and until are allowed`,
		`{"id":7}`:                       `id: 7; a string is needed`,
		`{"id":null}`:                    `id: null; a string is needed`,
		`{"id":""}`:                      `id: empty; 1 byte or more is needed`,
		`{"id":"x","count":10}`:          `count: 10; a whole number from 1 to 9 is allowed`,
		`{"id":"x","count":1e0}`:         `count: 1e0; a whole number from 1 to 9 is allowed`,
		`{"id":"x","count":"1"}`:         `count: "1"; a whole number is needed`,
		`{"id":"x","paid":0}`:            `paid: 0; true or false is needed`,
		`{"id":"x","lines":{}}`:          `lines: {; an array is needed`,
		`{"id":"x","lines":["1",""]}`:    `lines[1]: empty; 1 byte or more is needed`,
		`{"id":"x","notes":{"a":""}}`:    `notes.a: empty; 1 byte or more is needed`,
		`{"id":"x","until":3}`:           `until: 3; a string is needed`,
		"{\"id\":\"\xff\"}":              `id: not valid UTF-8`,
		`{"id":"\ud800"}`:                "id: half of a surrogate pair, such as \\ud800, stands alone in it",
		`{"id":"x","\udc00":1}`:          "body: a name in it is half of a surrogate pair, such as \\ud800, stands alone in it",
		`{"count":0,"id":""}`:            `count: 0; a whole number from 1 to 9 is allowed`, // the first, and the rest is read
		`{"count":0,"lines":7}`:          `lines: 7; an array is needed`,                    // after which nothing can be
		`{"count":0}`:                    `count: 0; a whole number from 1 to 9 is allowed`, // before what is missing
		`{"id":"x","lines":["","",3]}`:   `lines[2]: 3; a string is needed`,
		`{"` + string(make65()) + `":1}`: string(make65()[:64]) + `...: unknown field; id, count, paid, lines, notes and until are allowed`,
	} {
		if _, err := readOrder(body); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", body, err, want)
		}
	}
}

func make65() []byte { return slices.Repeat([]byte("n"), 65) }

// What a caller's own reading says is found where it was.
func TestErrorsKeepTheirPlace(t *testing.T) {
	err := strictjson.As("orders", strictjson.Within("[2]", strictjson.Within("id", strictjson.BadValue("taken"))))
	if err.Error() != "orders[2].id: taken" || !strictjson.Passed(err) || strictjson.Passed(strictjson.Bad("x")) {
		t.Error(err)
	}
	if strictjson.As("id", nil) != nil {
		t.Error("no error has become one")
	}
}

// Whatever is accepted means the same to encoding/json.
func FuzzRead(f *testing.F) {
	f.Add(`{"id":"x","count":3,"lines":["a","\u00e9"],"notes":{"a":"\ud83d\ude00"},"until":null}`)
	f.Add(`{"id":"\\\"","paid":false}`)
	f.Add(`{"count":0,"id":["}"]}`)
	f.Fuzz(func(t *testing.T, body string) {
		o, err := readOrder(body)
		if err != nil {
			if _, is := errors.AsType[*strictjson.Error](err); !is {
				t.Fatalf("%v is not an Error", err)
			}
			return
		}
		var want struct {
			ID    string
			Count int64
			Paid  bool
			Lines []string
			Notes map[string]string
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("accepted, and %v", err)
		}
		if o.id != want.ID || o.count != want.Count || o.paid != want.Paid || !slices.Equal(o.lines, want.Lines) || !maps.Equal(o.notes, want.Notes) {
			t.Fatalf("read as %+v, and by encoding/json as %+v", o, want)
		}
	})
}
