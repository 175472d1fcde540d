package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/rules"
)

// How a store is written, besides the URL of a database.
const (
	memory      = "memory"
	sqlite      = "sqlite:"
	environment = "env:"
)

// databases are the schemes that the URL of a store may have, and what stands
// behind them in the shortest one.
var databases = map[string]string{
	"postgres":    "USER@HOST/DATABASE",
	"postgresql":  "USER@HOST/DATABASE",
	"mysql":       "USER@HOST/DATABASE",
	"mariadb":     "USER@HOST/DATABASE",
	"mongodb":     "HOST/DATABASE",
	"mongodb+srv": "HOST/DATABASE",
	"redis":       "HOST",
	"rediss":      "HOST",
}

const storeHelp = "memory, sqlite:FILE, env:NAME, or the URL of a postgres, mysql, mariadb, mongodb or redis is allowed"

// StoreSchemes returns what a store may begin with, in front of the first
// colon, once [Store] has returned it.
func StoreSchemes() []string {
	schemes := append(slices.Collect(maps.Keys(databases)), memory, "sqlite")
	slices.Sort(schemes)
	return schemes
}

// Store returns the store that text names: memory, sqlite:FILE with a relative
// FILE in dir, or the URL of a database. env:NAME stands for any of these, in
// an environment variable. The error has no part of a URL but its scheme: in
// one that is mistyped, the password may be anywhere.
func Store(text, dir string) (string, error) {
	if name, ok := strings.CutPrefix(text, environment); ok && name != "" {
		value, set := os.LookupEnv(name)
		switch err := checkStore(value); {
		case !set:
			return "", fmt.Errorf("the environment has no variable %s; set it to the store", quote(name))
		case strings.HasPrefix(value, environment), value != memory && !strings.Contains(value, ":"):
			return "", fmt.Errorf("the environment variable %s does not hold a store; %s", name, storeHelp)
		case err != nil:
			return "", fmt.Errorf("in the environment variable %s: %w", name, err)
		}
		text = value
	}
	if err := checkStore(text); err != nil {
		return "", err
	}
	if file, ok := strings.CutPrefix(text, sqlite); ok && !filepath.IsAbs(file) {
		return sqlite + filepath.Join(dir, file), nil
	}
	return text, nil
}

// findStores makes what the file says the stores that it means.
func (l *loading) findStores(dir string) {
	if checkStore(l.file.Store) == nil { // it has been reported otherwise
		store, err := Store(l.file.Store, dir)
		l.check("store", err)
		l.file.Store = store
	}
	l.findTableStore(&l.file.Slots.Store, dir, "slots.store", "slots")
	l.findTableStore(&l.file.RulesFrom.Store, dir, "rules_from.store", "rules")
}

func (l *loading) findTableStore(text *string, dir, field, what string) {
	if *text == off || checkTableStore(*text, what) != nil {
		return
	}
	store, err := Store(*text, dir)
	if err == nil {
		err = checkTableStore(store, what)
	}
	l.check(field, err)
	*text = store
}

// tableStores are the kinds of store that keep slots, and those that keep rules.
var tableStores = map[string][]string{
	"slots": {"sqlite", "postgres", "postgresql", "mysql", "mariadb", "env"},
	"rules": {"sqlite", "postgres", "postgresql", "mysql", "mariadb", "mongodb", "mongodb+srv", "redis", "rediss", "env"},
}

// tableHelp says so.
var tableHelp = map[string]string{
	"slots": "postgres, mysql or mariadb",
	"rules": "postgres, mysql, mariadb, mongodb or redis",
}

// checkTableStore is checkStore for what only some stores keep.
func checkTableStore(text, what string) error {
	if kind, _, _ := strings.Cut(text, ":"); text != off && !slices.Contains(tableStores[what], kind) {
		return fmt.Errorf("%s cannot keep %s; off, sqlite:FILE, env:NAME, or the URL of a %s is allowed", quote(kind), what, tableHelp[what])
	}
	if text == off {
		return nil
	}
	return checkStore(text)
}

// checkStore checks what can be told without the environment.
func checkStore(text string) error {
	kind, rest, _ := strings.Cut(text, ":")
	example, isDatabase := databases[kind]
	switch {
	case text == memory, kind == "sqlite" && rest != "", kind == "env" && rest != "":
		return nil
	case kind == memory:
		return errors.New("memory has nothing behind it; write memory alone")
	case kind == "sqlite":
		return fmt.Errorf("%s names no file; write sqlite:stint.db", quote(text))
	case kind == "env":
		return fmt.Errorf("%s names no environment variable; write env:STINT_STORE", quote(text))
	case isDatabase:
		if err := checkDatabase(kind, rest); err != nil {
			return fmt.Errorf("a %s URL %w; write %s://%s, and signs within a password as %%40 for @", kind, err, kind, example)
		}
		return nil
	}
	known := append(StoreSchemes(), "env")
	return fmt.Errorf("%s is not a store%s; %s", quote(kind), didYouMean(rules.Closest(kind, known)), storeHelp)
}

var (
	errNoSlashes = errors.New("has no // behind its scheme")
	errNoHost    = errors.New("has no host")
	errBadHost   = errors.New("has a host that is not a name, an address or several with commas between them")
	errBadPort   = errors.New("has a port that is not 1 to 65535")
	errStraySign = errors.New("has an @ or a # behind its host")
)

// checkDatabase checks what stands behind the colon of a URL's scheme. What
// the rest of the URL means is for the store to say.
func checkDatabase(kind, rest string) error {
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return errNoSlashes
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	hosts, behind := rest[:end], rest[end:]
	hosts = hosts[strings.LastIndexByte(hosts, '@')+1:]
	if strings.ContainsAny(behind, "@#") {
		return errStraySign
	}
	if _, query, _ := strings.Cut(behind, "?"); hosts == "" && strings.HasPrefix(kind, "postgres") && strings.Contains(query, "host=") {
		return nil // a Unix socket
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if err := checkHost(host); err != nil {
			return err
		}
	}
	return nil
}

var hostName = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)$`)

// checkHost checks a host, with or without a port.
func checkHost(text string) error {
	host, port := text, "1"
	if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, ']') {
		host, port = text[:colon], text[colon+1:]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case host == "":
		return errNoHost
	case !hostName.MatchString(host):
		return errBadHost
	case err != nil || n == 0:
		return errBadPort
	}
	return nil
}
