package mysql_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/store/mysql"
)

var allTables = []string{
	"stint_schema", "stint_state",
	"stint_slot_config", "stint_slot_version", "stint_slot", "stint_slot_cancelled", "stint_slot_window", "stint_slot_run", "stint_slot_delivery",
	"stint_rule", "stint_rule_change",
}

// shape is what the tables of a database look like.
func shape(t *testing.T, url string) (all []string) {
	t.Helper()
	db := connect(t, url)
	defer db.Close()
	for _, table := range allTables {
		var name, text string
		if err := db.QueryRowContext(t.Context(), "SHOW CREATE TABLE "+table).Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

func TestMigrate(t *testing.T) {
	server := servertest.StartMariaDB(t).URL
	model := shape(t, tables(t, server))
	more := map[string]string{"stint_slot_config": ",\n  UNIQUE KEY `name` (`name`)", "stint_rule": ",\n  UNIQUE KEY `name` (`name`),\n  UNIQUE KEY `path` (`path`),\n  KEY `modified` (`modified`)", "stint_rule_change": ",\n  KEY `id` (`id`,`n`)", "stint_slot": ",\n  UNIQUE KEY `event` (`config`,`event`),\n  KEY `at` (`config`,`at`,`event`)",
		"stint_slot_delivery": ",\n  KEY `due` (`dead`,`due`),\n  KEY `dead` (`config`,`dead`,`event`)"}
	for i, text := range model {
		want := `PRIMARY KEY \([a-z,` + "`" + `]*\)` + regexp.QuoteMeta(more[allTables[i]]) + `(,\n  CONSTRAINT .*)*\n\) ENGINE=InnoDB`
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("a table with other keys than its primary key%s, or with other than InnoDB:\n%s", more[allTables[i]], text)
		}
	}
	// like compares a database with one that Migrate has made by itself.
	like := func(t *testing.T, url string) {
		t.Helper()
		if diff := cmp.Diff(model, shape(t, url)); diff != "" {
			t.Errorf("the tables (-migrated +got):\n%s", diff)
		}
		if n := number(t, url, "SELECT COUNT(*) FROM stint_schema"); n != 4 {
			t.Errorf("%d schema versions are noted, want 4", n)
		}
		if err := count(t.Context(), open(t, url, nil), "key"); err != nil {
			t.Error(err)
		}
	}
	nothing := func(t *testing.T, url string) {
		t.Helper()
		if done, err := mysql.Migrate(t.Context(), url); len(done) > 0 || err != nil {
			t.Errorf("there was %v to do, %v; want nothing", done, err)
		}
	}

	t.Run("once, whoever comes first", func(t *testing.T) {
		url := database(t, server)
		var wg sync.WaitGroup
		var did [8][]string
		for i := range did {
			wg.Go(func() {
				done, err := mysql.Migrate(t.Context(), url)
				if err != nil {
					t.Error(err)
				}
				did[i] = done
			})
		}
		wg.Wait()
		var all []string
		for _, done := range did {
			all = append(all, done...)
		}
		if diff := cmp.Diff([]string{"schema version 1", "schema version 2", "schema version 3", "schema version 4"}, all); diff != "" {
			t.Errorf("8 at once have done (-want +got):\n%s", diff)
		}
		like(t, url)
		nothing(t, url)
	})
	t.Run("after one that failed halfway", func(t *testing.T) {
		every := []string{"schema version 1", "schema version 2", "schema version 3", "schema version 4"}
		for _, test := range []struct {
			failed string
			want   []string
		}{
			{"DROP TABLE " + strings.Join(allTables, ", "), every},
			{"DROP TABLE " + strings.Join(allTables[1:], ", ") + "; DELETE FROM stint_schema", every},
			{"DELETE FROM stint_schema", every},
			{"DROP TABLE stint_slot, stint_slot_run; DELETE FROM stint_schema WHERE version >= 2", every[1:]},
			{"DELETE FROM stint_schema WHERE version >= 2", every[1:]},
		} {
			url := tables(t, server)
			execute(t, url, test.failed)
			done, err := mysql.Migrate(t.Context(), url)
			if diff := cmp.Diff(test.want, done); diff != "" || err != nil {
				t.Errorf("after %s: %v (-want +got):\n%s", test.failed, err, diff)
			}
			like(t, url)
		}
	})
	t.Run("keeps what is there", func(t *testing.T) {
		url := tables(t, server)
		if err := count(t.Context(), open(t, url, nil), "key"); err != nil {
			t.Fatal(err)
		}
		execute(t, url, "DELETE FROM stint_schema")
		if _, err := mysql.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		if n := number(t, url, "SELECT a FROM stint_state"); n != 1 {
			t.Errorf("the key counts %d, want 1", n)
		}
	})
	t.Run("by hand", func(t *testing.T) {
		url := database(t, server)
		execute(t, url, mysql.Script())
		like(t, url)
		nothing(t, url)
	})
	t.Run("whatever the server's settings", func(t *testing.T) {
		url := database(t, server)
		odd := url + "?sql_mode='ANSI'&default_storage_engine=MyISAM&autocommit=0&character_set_server=ucs2"
		if _, err := mysql.Migrate(t.Context(), odd); err != nil {
			t.Fatal(err)
		}
		like(t, url)
	})
	t.Run("with no right to", func(t *testing.T) {
		url := database(t, server)
		execute(t, url, "CREATE USER guest IDENTIFIED BY 'secret'", "GRANT SELECT ON "+nameOf(t, url)+".* TO guest")
		_, err := mysql.Migrate(t.Context(), as(t, url, "guest", "secret"))
		refused(t, "migrate", err, "CREATE command denied to user 'guest'@'127.0.0.1' for table `"+nameOf(t, url)+
			"`.`stint_schema`; name a user who may in: stint migrate --store "+as(t, url, "guest", ""))
	})
	t.Run("what is newer", func(t *testing.T) {
		url := tables(t, server)
		execute(t, url, "INSERT INTO stint_schema (version) VALUES (5)", "CREATE USER late", "GRANT SELECT ON "+nameOf(t, url)+".* TO late")
		for _, user := range []string{"root", "late"} {
			_, err := mysql.Migrate(t.Context(), as(t, url, user, ""))
			refused(t, "migrate", err, "the tables have schema version 5, and this Stint knows up to 4; run the newer Stint that made them")
		}
	})
	t.Run("into no database", func(t *testing.T) {
		_, err := mysql.Migrate(t.Context(), at(t, server, nil, "", "nowhere"))
		refused(t, "migrate", err, "Unknown database 'nowhere'; create the database first")
	})
	t.Run("by a user without rights when there is nothing to do", func(t *testing.T) {
		url := tables(t, server)
		execute(t, url, "CREATE USER visitor", "GRANT SELECT ON "+nameOf(t, url)+".stint_schema TO visitor")
		nothing(t, as(t, url, "visitor", ""))
	})
	t.Run("while somebody else does", func(t *testing.T) {
		url := database(t, server)
		other := connect(t, url)
		defer other.Close()
		const lock = "DO GET_LOCK(CONCAT('stint migrate ', SHA1(DATABASE())), 0)"
		if _, err := other.ExecContext(t.Context(), lock); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := mysql.Migrate(ctx, url)
		refused(t, "migrate", err, "somebody else is migrating this database; try again")
		other.Close()
		if _, err := mysql.Migrate(t.Context(), url); err != nil {
			t.Errorf("they are done: %v", err)
		}
	})
}
