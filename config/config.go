// Package config reads the one YAML file that a process is configured by: its
// own settings, who its callers are, and the rules for them.
//
// It is strict: a field that is unknown, twice there, misspelled or out of
// bounds is a [Problem] with its line, and all problems of a file are reported
// at once. [Schema] describes the same file to editors.
package config

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/rules"
)

// Config is a file that has been read and checked, and what is made of it.
// It does not change and is safe for simultaneous use.
type Config struct {
	File     *File
	Rules    *rules.Set
	Identity *identity.Identifier
}

// Close stops the refreshing of signing keys. What is being decided by the
// Config may go on.
func (c *Config) Close() { c.Identity.Close() }

// Options change how a file is loaded. The zero value is ready to use.
type Options struct {
	// Set are fields to take in place of what the file says, each written as
	// FIELD=VALUE: listen.proxy=:8000.
	Set []string
	// Logger makes, from the file's log section, what work in the background
	// logs to. Defaults to slog.Default().
	Logger func(Log) *slog.Logger
}

// Load reads the file at path, opens the key files and fetches the key sets
// that it names, and returns what is made of it and everything that is wrong,
// in the order of the lines. The Config is nil if there is any problem that is
// not a warning. Relative file names in it start at its own folder. A nil o is
// the zero Options.
func Load(path string, o *Options) (*Config, []Problem) {
	var opts Options
	if o != nil {
		opts = *o
	}
	data, err := readFile(path)
	if err != nil {
		return nil, []Problem{{File: path, Message: "the file cannot be read: " + err.Error()}}
	}
	dir := filepath.Dir(path)
	l := read(path, data, opts.Set)
	l.findStores(dir)
	l.findToken()
	l.findSecret()
	l.findCertificates(dir)
	set := l.compile()
	options := identity.Options{Dir: dir}
	if opts.Logger != nil {
		options.Logger = opts.Logger(l.file.Log)
	}
	id, problems := identity.New(l.file.Identity, &options)
	l.judge("identity.", problems)
	if l.failed {
		if id != nil {
			id.Close()
		}
		return nil, l.sorted()
	}
	return &Config{l.file, set, id}, l.sorted()
}

// Parse returns what data says and everything that is wrong with it, as far as
// that can be told without opening another file or a connection. The File is
// nil if there is any problem that is not a warning. name is what the problems
// call the file.
func Parse(name string, data []byte) (*File, []Problem) {
	l := read(name, data, nil)
	l.compile()
	l.judge("identity.", identity.Validate(l.file.Identity))
	if l.failed {
		return nil, l.sorted()
	}
	return l.file, l.sorted()
}

// loading is a file that is being read.
type loading struct {
	*decoder
	file *File
	root *yaml.Node // nil if the file is no YAML mapping
}

// read decodes data, with what is set, and checks what does not need rules or keys.
func read(name string, data []byte, sets []string) *loading {
	d := newDecoder(&problems{file: name})
	l := &loading{decoder: d, file: defaults()}
	if l.root = parse(data, d.problems); l.root == nil {
		return l
	}
	if d.isOtherVersion(l.root) {
		l.root = nil
		return l
	}
	for _, text := range sets {
		if err := set(l.root, text); err != nil {
			d.add(&yaml.Node{Line: 1, Column: 1}, "", "%v", err)
		}
	}
	d.value("", l.root, l.root, reflect.ValueOf(l.file).Elem())
	l.checkFile()
	return l
}

// compile checks the rules and returns them, or nil if there is any problem.
func (l *loading) compile() *rules.Set {
	set, problems := rules.Compile(l.file.Spec)
	l.judge("", problems)
	l.checkAttributes()
	return set
}

// judge reports problems that were found in what has been decoded, except
// those that may only follow from a hole in it.
func (l *loading) judge(prefix string, problems []rules.Problem) {
	for _, p := range problems {
		p.Path = prefix + p.Path
		if l.root == nil || l.full() || l.followsFromHole(p.Path) {
			l.failed = l.failed || !p.Warning
			continue
		}
		at := locate(l.root, p.Path)
		l.put(Problem{Line: at.Line, Column: at.Column, Path: p.Path, Message: p.Message, Warning: p.Warning})
	}
}

// followsFromHole reports whether what is wrong at path may only be so because
// it, or something that it depends on, could not be read.
func (l *loading) followsFromHole(path string) bool {
	return slices.ContainsFunc(reasons(path), l.incomplete)
}

// incomplete reports whether what is at path, or a part of it, could not be read.
func (l *loading) incomplete(path string) bool {
	return slices.ContainsFunc(l.holes, func(hole string) bool { return within(path, hole) || within(hole, path) })
}

// limited is a part of a rule that is held against the rule's limits.
var limited = regexp.MustCompile(`^(rules\[\d+\])\.(cost|overrides)`)

// reasons returns where holes may be the reason for a problem at path. A field
// of a rule is judged by itself; an element of a list may be compared with the
// others, and what identifies callers with what is beside it.
func reasons(path string) []string {
	all := []string{path}
	switch {
	case strings.HasPrefix(path, "identity."):
		all = []string{around(path), "identity.trusted_proxies"}
	case strings.HasSuffix(path, "]"):
		all = []string{around(path)}
	}
	if m := limited.FindStringSubmatch(path); m != nil {
		all = append(all, m[1]+".limits")
	}
	return all
}

// readFile returns what is in the file at path, and of one that is too large
// only enough to tell.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	return data, cause(err)
}
