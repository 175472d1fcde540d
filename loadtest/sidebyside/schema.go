package sidebyside

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// Schema is a place for the tables of one measurement in a PostgreSQL database.
type Schema struct {
	// URL leads to a database in which schemas may be made.
	URL string
	// Name is the schema's. What is in one of that name is lost.
	Name string
}

// Within makes the schema, runs statements in it and then do, and drops it.
func (s Schema) Within(ctx context.Context, do func() error, statements ...string) (err error) {
	drop := "DROP SCHEMA IF EXISTS " + s.Name + " CASCADE"
	if err := s.Exec(ctx, append([]string{drop, "CREATE SCHEMA " + s.Name, "SET search_path = " + s.Name + ", public"}, statements...)...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Exec(context.WithoutCancel(ctx), drop)) }()
	return do()
}

// Path returns server, which leads to the database, with the schema as its search
// path, and the schemas after it.
func (s Schema) Path(server string, after ...string) (*url.URL, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the store is not a URL such as postgres://USER@HOST/DATABASE")
	}
	path := s.Name
	for _, name := range after {
		path += "," + name
	}
	q := u.Query()
	q.Set("search_path", path)
	u.RawQuery = q.Encode()
	return u, nil
}

// Exec runs statements on a connection of their own.
func (s Schema) Exec(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
