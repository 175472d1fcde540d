package postgres_test

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/store/postgres"
)

func TestMigrate(t *testing.T) {
	server := servertest.StartPostgres(t).URL
	t.Run("once, whoever comes first", func(t *testing.T) {
		url := schema(t, server)
		var wg sync.WaitGroup
		var did [8][]string
		for i := range did {
			wg.Go(func() {
				done, err := postgres.Migrate(t.Context(), url)
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
		open(t, url, nil)
	})
	t.Run("by hand", func(t *testing.T) {
		url := schema(t, server)
		execute(t, url, postgres.Script())
		open(t, url, nil)
		if done, err := postgres.Migrate(t.Context(), url); len(done) > 0 || err != nil {
			t.Errorf("after the script there was %v to do, %v", done, err)
		}
	})
	t.Run("with no right to", func(t *testing.T) {
		execute(t, server, "CREATE ROLE guest LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
		url := at(t, server, url.UserPassword("guest", "secret"), "")
		_, err := postgres.Migrate(t.Context(), url)
		refused(t, "migrate", err, "permission denied for schema public; name a user who may in: stint migrate --store "+strings.Replace(url, ":secret@", "@", 1))
	})
	t.Run("into no schema", func(t *testing.T) {
		_, err := postgres.Migrate(t.Context(), with(t, server, "search_path", "nowhere"))
		refused(t, "migrate", err, "no schema has been selected to create in; create the schema of the URL's search_path first")
	})
	t.Run("what is newer", func(t *testing.T) {
		url := tables(t, server)
		execute(t, url, "INSERT INTO stint_schema (version) VALUES (5)")
		_, err := postgres.Migrate(t.Context(), url)
		refused(t, "migrate", err, "the tables have schema version 5, and this Stint knows up to 4; run the newer Stint that made them")
	})
	t.Run("by a user without rights when there is nothing to do", func(t *testing.T) {
		own := tables(t, server)
		execute(t, own, "CREATE ROLE visitor LOGIN", "GRANT USAGE ON SCHEMA "+parameter(t, own, "search_path")+" TO visitor", "GRANT SELECT ON stint_schema TO visitor")
		if done, err := postgres.Migrate(t.Context(), at(t, own, url.User("visitor"), "")); len(done) > 0 || err != nil {
			t.Errorf("there was %v to do, %v", done, err)
		}
	})
}
