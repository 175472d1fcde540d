package mongodb_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stint-dev/stint/store/mongodb"
)

func TestMigrate(t *testing.T) {
	d := start(t)
	everything := []string{
		"collection stint_state with the TTL index stint_expire",
		"schema version 1",
		"collection stint_rule with unique indexes on id, name and path",
		"collection stint_rule_change with the index stint_rule_change_row",
		"collection stint_rule_count",
	}
	t.Run("twice", func(t *testing.T) {
		u := d.empty(t)
		for _, want := range [][]string{everything, nil} {
			if done, err := mongodb.Migrate(t.Context(), u); err != nil || !slices.Equal(done, want) {
				t.Errorf("made %q, %v; want %q", done, err, want)
			}
		}
		open(t, u, nil).Close()
	})
	t.Run("twice at once", func(t *testing.T) {
		u := d.empty(t)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, err := mongodb.Migrate(t.Context(), u); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		open(t, u, nil).Close()
	})
	t.Run("a part was there", func(t *testing.T) {
		u := d.ready(t)
		if err := d.raw().Collection("stint_state").Indexes().DropOne(t.Context(), "stint_expire"); err != nil {
			t.Fatal(err)
		}
		if done, err := mongodb.Migrate(t.Context(), u); err != nil || !slices.Equal(done, everything[:1]) {
			t.Errorf("made %q, %v; want %q", done, err, everything[:1])
		}
	})
}

func TestScript(t *testing.T) {
	const want = `// collection stint_state with the TTL index stint_expire
db.runCommand({
  "createIndexes": "stint_state",
  "indexes": [
    {
      "key": {
        "expire": 1
      },
      "name": "stint_expire",
      "expireAfterSeconds": 60
    }
  ]
})
// schema version 1
db.runCommand({
  "update": "stint_state",
  "updates": [
    {
      "q": {
        "_id": "stint"
      },
      "u": {
        "$setOnInsert": {
          "schema": 1
        }
      },
      "upsert": true
    }
  ]
})
// collection stint_rule with unique indexes on id, name and path
db.runCommand({
  "createIndexes": "stint_rule",
  "indexes": [
    {
      "key": {
        "id": 1
      },
      "name": "stint_rule_id",
      "unique": true,
      "sparse": true
    },
    {
      "key": {
        "name": 1
      },
      "name": "stint_rule_name",
      "unique": true,
      "sparse": true
    },
    {
      "key": {
        "path": 1
      },
      "name": "stint_rule_path",
      "unique": true,
      "sparse": true
    }
  ]
})
// collection stint_rule_change with the index stint_rule_change_row
db.runCommand({
  "createIndexes": "stint_rule_change",
  "indexes": [
    {
      "key": {
        "id": 1,
        "_id": -1
      },
      "name": "stint_rule_change_row"
    }
  ]
})
// collection stint_rule_count
db.runCommand({
  "update": "stint_rule_count",
  "updates": [
    {
      "q": {
        "_id": "stint"
      },
      "u": {
        "$setOnInsert": {
          "n": 0,
          "id": 0
        }
      },
      "upsert": true
    }
  ]
})
`
	if got := mongodb.Script(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
