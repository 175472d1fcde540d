package mysql

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const urlForm = "write mysql://USER@HOST/DATABASE"

// errURL does not repeat the URL, nor a part of it: it may be the password.
var errURL = errors.New("the URL cannot be read; " + urlForm + ", and in a password %40, %2F and %3F for @, / and ?")

// target is what a URL names.
type target struct {
	config   *mysql.Config
	poolSize int
	url      string // without the password
}

// parse returns what text says, with the defaults of this package.
func parse(text string) (t target, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != "mysql" && scheme != "mariadb" {
		return t, errors.New("the URL must begin with mysql:// or mariadb://; " + urlForm)
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && strings.Contains(rest[i:], "@") {
		return t, errURL
	}
	u, err := url.Parse(text)
	if err != nil {
		return t, errURL
	}
	database := strings.TrimPrefix(u.Path, "/")
	if u.Hostname() == "" || database == "" || strings.Contains(database, "/") {
		return t, errors.New("the URL names no host, or no database; " + urlForm)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return t, errURL
	}
	if query.Has("user") || query.Has("password") {
		return t, errors.New("the URL has the user or the password among its parameters; write mysql://USER:PASSWORD@HOST/DATABASE")
	}
	t.poolSize = 8
	if size := query.Get("pool_max_conns"); size != "" {
		if t.poolSize, err = strconv.Atoi(size); err != nil || t.poolSize < 1 {
			return t, fmt.Errorf("pool_max_conns in the URL is %q; a number of 1 or more is allowed", size)
		}
	}
	query.Del("pool_max_conns")
	ca := query.Get(caParameter)
	query.Del(caParameter)
	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	if t.config, err = configure(address, database, query); err != nil {
		return t, fmt.Errorf("the URL is wrong: %w", err)
	}
	if ca != "" {
		if t.config.TLS, err = trust(ca, u.Hostname()); err != nil {
			return t, fmt.Errorf("%s in the URL: %w", caParameter, err)
		}
	}
	t.config.User = u.User.Username()
	t.config.Passwd, _ = u.User.Password()
	u.User = url.User(t.config.User)
	t.url = u.String()
	return t, nil
}

// caParameter names a file of certificates that the server's must be signed by.
const caParameter = "ssl-ca"

func trust(file, host string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return &tls.Config{RootCAs: roots, ServerName: host}, nil
}

// configure returns what the driver makes of the parameters, and what the
// statements here need of it.
func configure(address, database string, parameters url.Values) (*mysql.Config, error) {
	config, err := mysql.ParseDSN(fmt.Sprintf("tcp(%s)/%s?%s", address, url.PathEscape(database), parameters.Encode()))
	if err != nil {
		return nil, err
	}
	config.Timeout = cmp.Or(config.Timeout, 5*time.Second)
	config.Logger = new(mysql.NopLogger) // what it would print is in the errors
	config.MultiStatements = true
	config.ClientFoundRows = false
	return config, nil
}
