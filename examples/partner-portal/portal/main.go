// Command portal is a partners' portal: it keeps items in PostgreSQL, and
// listing them is expensive. It limits nothing by itself; several instances of
// it may share one database.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9081", "`address` to accept connections on")
	database := flag.String("database", os.Getenv("PORTAL_DATABASE"), "`URL` of the PostgreSQL database (default $PORTAL_DATABASE)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *database); err != nil {
		slog.Error("portal failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, database string) error {
	db, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, db); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	slog.Info("portal listens", "address", listener.Addr().String())
	return serve(ctx, listener, db)
}

// serve answers until ctx ends, and then lets what is under way end.
func serve(ctx context.Context, l net.Listener, db *pgxpool.Pool) error {
	server := &http.Server{
		Handler:           newPortal(db),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// schema is made by whichever instance comes first; the lock keeps the others
// waiting meanwhile.
const schema = `
SELECT pg_advisory_xact_lock(7205759403792794);
CREATE TABLE IF NOT EXISTS items (
	id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	user_name text NOT NULL,
	item_name text NOT NULL
);
CREATE INDEX IF NOT EXISTS items_of_user ON items (user_name, id);`

func prepare(ctx context.Context, db *pgxpool.Pool) error {
	_, err := db.Exec(ctx, schema)
	return err
}

const (
	maxName  = 100 // bytes of a user's or an item's name
	maxItems = 100 // that are listed
)

type portal struct{ db *pgxpool.Pool }

func newPortal(db *pgxpool.Pool) http.Handler {
	p := portal{db}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /items/create", p.create)
	mux.HandleFunc("GET /items/{user}", p.list)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := db.Ping(r.Context()); err != nil {
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		}
	})
	return mux
}

func (p portal) create(w http.ResponseWriter, r *http.Request) {
	var item struct {
		User string `json:"user"`
		Name string `json:"itemName"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&item)
	if err != nil || item.User == "" || item.Name == "" || max(len(item.User), len(item.Name)) > maxName {
		http.Error(w, fmt.Sprintf(`a JSON object is needed, such as {"user":"alex","itemName":"stapler"}, with names of 1 to %d bytes`, maxName), http.StatusBadRequest)
		return
	}
	if _, err := p.db.Exec(r.Context(), "INSERT INTO items (user_name, item_name) VALUES ($1, $2)", item.User, item.Name); err != nil {
		fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "Created item %s\n", item.Name)
}

func (p portal) list(w http.ResponseWriter, r *http.Request) {
	user := r.PathValue("user")
	rows, err := p.db.Query(r.Context(), "SELECT item_name FROM items WHERE user_name = $1 ORDER BY id DESC LIMIT $2", user, maxItems)
	if err != nil {
		fail(w, r, err)
		return
	}
	items, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct {
		Items []string `json:"items"`
		User  string   `json:"user"`
	}{append([]string{}, items...), user})
}

// fail tells the caller that it is not the caller's fault, and the log why.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // the caller has gone
	}
	slog.Error("request failed", "path", r.URL.Path, "error", err)
	http.Error(w, "Internal server error", http.StatusInternalServerError)
}
