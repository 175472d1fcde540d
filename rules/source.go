package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Source keeps rules in a table of a database, where people and programs change
// them while processes follow. It decides nothing: whether a row is a rule that
// can be used is for [CompileTable] to say, so that a row which is wrong keeps
// nobody from reading the others.
//
// People may change the table by SQL, too, or by whatever the database has. Such
// a change is seen as any other; it is By "", and it is in the history as soon as
// the row is next changed by Put or Delete, which first keep what they found.
//
// Methods are safe for simultaneous use. They return ErrNoRow, ErrChanged,
// ErrNameTaken, ErrPathTaken or a *[RowError] where those say so, and a
// *[SourceError] for faults of the database. rules/rulestest has the conformance suite.
type Source interface {
	// Version returns a number that is another one after every change. It is
	// cheap, to be asked for several times a second.
	Version(ctx context.Context) (int64, error)
	// List returns rows in the order of their ids: those that come after one, and
	// at most limit of them.
	List(ctx context.Context, after int64, limit int) ([]Row, error)
	// Get returns one row, or ErrNoRow.
	Get(ctx context.Context, id int64) (Row, error)
	// Put writes a row and notes who did, and returns it as it is then, with its
	// Revision. If row.Revision is 0 there must be no row of that id, and an id of
	// 0 stands for the next one. Otherwise row.Revision must be that of the row
	// which is there. ErrChanged: it is not so.
	Put(ctx context.Context, row Row, by string) (Row, error)
	// Delete takes out a row that has this revision, and notes who did.
	Delete(ctx context.Context, id, revision int64, by string) error
	// History returns changes, the newest first.
	History(ctx context.Context, q HistoryQuery) ([]Change, error)
}

// A Watcher is a Source that tells of changes, so that nobody has to wait until
// Version is asked for again.
type Watcher interface {
	// Watch calls changed once it listens and then soon after every change, also
	// one by SQL, until ctx ends or the connection is lost. It returns why.
	Watch(ctx context.Context, changed func()) error
}

// Row is a row of the table. It has either a rule as a rules file has it, or, if
// Rule is empty, the plain form: a path, and how many calls of it each caller may
// make in a period.
type Row struct {
	ID int64
	// Name is that of the rule. "" stands for the one in Rule, or for rule-ID in a
	// plain row. No two rows have the same.
	Name string
	// Enabled: the rule is in force. One that is not is as if it were not there.
	Enabled bool
	// Rule is one element of the rules of a rules file, in YAML or JSON.
	Rule string
	// Path is what a request's attribute api must be. No two rows have the same.
	Path     string
	Calls    int64
	PeriodMS int64 // milliseconds

	// Revision is another one after every change of the row. It is never 0.
	Revision int64
	Modified time.Time
	// By is who changed the row last, "" if it was not by Put.
	By string
}

// IsPlain reports whether a row has the plain form.
func (r *Row) IsPlain() bool { return r.Rule == "" }

// Change is one change of a row.
type Change struct {
	N  int64     // counts up, with gaps
	At time.Time // on the database's clock
	By string    // "" if it was found: somebody had changed the row by SQL
	// Row is what the change has made of the row. If it is Deleted, what it was.
	Row     Row
	Deleted bool
}

// HistoryQuery says which changes are wanted.
type HistoryQuery struct {
	Row    int64 // 0: those of all rows
	Before int64 // those whose N is less; 0: all
	Limit  int   // 1 or more
}

// Rollback makes a row again what change n has made of it; a row that n deleted,
// what it was before. revision is that of the row now, and 0 if there is none.
func Rollback(ctx context.Context, s Source, n, revision int64, by string) (Row, error) {
	changes, err := s.History(ctx, HistoryQuery{Before: n + 1, Limit: 1})
	if err != nil {
		return Row{}, err
	}
	if len(changes) == 0 || changes[0].N != n {
		return Row{}, ErrNoChange
	}
	row := changes[0].Row
	row.Revision = revision
	return s.Put(ctx, row, by)
}

// Bounds of a Row.
const (
	MaxRowRule = 256 << 10 // bytes of Rule
	MaxRowPath = 255       // bytes of Path
	MaxRowBy   = 128       // bytes of By

	maxRowPeriod = 365 * 24 * 3600 * 1000
)

// Check returns nil if a row may be written, and otherwise a *RowError with the
// first field that is out of bounds. It says nothing about the rule itself.
func (r *Row) Check() error {
	plain := r.Path != "" || r.Calls != 0 || r.PeriodMS != 0
	switch {
	case r.ID < 0:
		return &RowError{"id", fmt.Sprintf("%d is negative; 1 or more is allowed, or 0 for the next one", r.ID)}
	case r.Name != "" && !isName(r.Name):
		return &RowError{"name", fmt.Sprintf("%q is not a name; %s", shortened(r.Name), nameHelp)}
	case !isText(r.Rule):
		return &RowError{"rule", "has bytes that are not UTF-8 text"}
	case !isText(r.Path):
		return &RowError{"path", "has bytes that are not UTF-8 text"}
	case len(r.Rule) > MaxRowRule:
		return &RowError{"rule", fmt.Sprintf("has %d bytes; at most %d are allowed, put callers that are alike into a plan", len(r.Rule), MaxRowRule)}
	case r.Rule != "" && plain:
		return &RowError{"rule", "is given, and so are path, calls or period_ms; a row has either"}
	case r.Rule != "":
		return nil
	case r.Path == "":
		return &RowError{"path", "is missing, and so is rule; a row has either"}
	case len(r.Path) > MaxRowPath:
		return &RowError{"path", fmt.Sprintf("has %d bytes; at most %d are allowed, write a rule for it", len(r.Path), MaxRowPath)}
	case r.Calls < 0:
		return &RowError{"calls", fmt.Sprintf("%d is negative; 0 (admit nothing) or more is allowed", r.Calls)}
	case r.PeriodMS < 1 || r.PeriodMS > maxRowPeriod:
		return &RowError{"period_ms", fmt.Sprintf("%d is out of bounds; 1 to %d (365 days) is allowed", r.PeriodMS, maxRowPeriod)}
	}
	return nil
}

// CheckBy returns nil if by may stand for who changed a row.
func CheckBy(by string) error {
	if by == "" || len(by) > MaxRowBy || !isText(by) {
		return &RowError{"by", fmt.Sprintf("%q is not who changes a row; a text of 1 to %d bytes is allowed", shortened(by), MaxRowBy)}
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// shortened returns the start of a long text, for a message.
func shortened(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Faults that are the caller's.
var (
	ErrNoRow        = errors.New("no such row")
	ErrNoChange     = errors.New("no such change")
	ErrChanged      = errors.New("the row has been changed meanwhile; read it again")
	ErrNameTaken    = errors.New("another row has that name")
	ErrPathTaken    = errors.New("another row has that path")
	ErrSourceClosed = errors.New("closed")
)

// RowError is a field of a Row that is out of bounds.
type RowError struct{ Field, Message string }

func (e *RowError) Error() string { return e.Field + ": " + e.Message }

// SourceError is a fault of the database.
type SourceError struct {
	Store string // such as "postgres"
	Op    string // such as "list"
	// Sent says that what was to be written may have been.
	Sent bool
	Err  error
}

func (e *SourceError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Store, e.Op, e.Err) }
func (e *SourceError) Unwrap() error { return e.Err }
