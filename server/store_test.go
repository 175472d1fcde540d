package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/memory"
)

// opens returns a kind of store for the schemes db and dbs.
func opens(open func(ctx context.Context, url string) (limit.Store, error)) []Store {
	return []Store{{Schemes: []string{"db", "dbs"}, Open: func(ctx context.Context, url string, _ *slog.Logger) (limit.Store, error) { return open(ctx, url) }}}
}

// off is a configuration that keeps no slots and has no table of rules.
func off(store string) *config.File {
	f := &config.File{Store: store}
	f.Slots.Store, f.RulesFrom.Store = "off", "off"
	return f
}

func TestOpenStoreHandsOverTheWholeURL(t *testing.T) {
	const url = "dbs://stint:hunter2@host/name?x=y"
	var got string
	stores := opens(func(_ context.Context, url string) (limit.Store, error) {
		got = url
		return memory.New(nil), nil
	})
	var log bytes.Buffer
	s, err := openStores(t.Context(), stores, off(url), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || got != url {
		t.Fatalf("opened %q, %v; want %q", got, err, url)
	}
	s.close()
	if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "host/name") {
		t.Errorf("the log has the password, or lacks the host: %s", text)
	}
}

func TestOpenStoreThatIsUnknown(t *testing.T) {
	_, err := openStores(t.Context(), opens(nil), off("other://stint:hunter2@host"), slog.New(slog.DiscardHandler))
	if want := `store: "other" is not known; memory, db, dbs is allowed`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOpenStoreDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		stores := opens(func(ctx context.Context, _ string) (limit.Store, error) {
			<-ctx.Done()
			return nil, errors.New("dial host: timeout")
		})
		_, err := openStores(t.Context(), stores, off("db://host"), slog.New(slog.DiscardHandler))
		if want := "store: no answer within 10s: dial host: timeout"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if took := time.Since(began); took != openTime {
			t.Errorf("it took %v, want %v", took, openTime)
		}
	})
}
