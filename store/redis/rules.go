package redis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// Rules returns a [rules.Source] in the Redis of s, whose connections it uses. It
// is a [rules.Watcher], too, and ends with s.
//
// The rows are the hash PREFIX{rules}, and people may change them by HSET and HDEL.
// A field is an id. Its value is an object in JSON with the members name, enabled,
// path, calls, period_ms and rule, which may be left out; a value that is none of
// these is a rule as a rules file has it. Fields that are no ids are nobody's rows.
//
// Put and Delete are a Lua script each. Changes by hand are found by a checksum of
// the hash, of 64 bits, and get a revision when they are found: by each List, Get,
// Put and Delete, and by Version and Watch, but not more often than once in a
// microsecond for each byte of the table as Redis would save it: at once in a table
// of some hundred rows, and within a second in one of ten thousand. A row that was
// changed and changed back in between is not seen.
//
// The history keeps the newest 10,000 changes.
//
// Where there was a table and Redis has lost all of it, Version returns an error
// until a row is written, so that nobody takes it for a table without rules.
func (s *Store) Rules() rules.Source {
	r := &source{store: s}
	for i, part := range []string{"", ":known", ":state", ":history"} {
		r.keys[i] = s.prefix + "{rules}" + part
	}
	_, db, _ := strings.Cut(strings.TrimPrefix(s.channel, s.prefix), ":")
	r.channel = s.prefix + "{rules}:changes:" + db
	return r
}

const (
	maxChanges = 10_000 // of a history
	// changePage is how many changes are read in one trip.
	changePage = 100
	// lookPause is how long Version does not look for changes by hand again, for
	// each byte that it has looked at.
	lookPause = time.Microsecond
	// watchEvery is how often Watch looks for changes by hand.
	watchEvery = time.Second
)

var (
	versionScript = newRulesScript("version")
	listScript    = newRulesScript("list")
	getScript     = newRulesScript("get")
	putScript     = newRulesScript("put")
	deleteScript  = newRulesScript("delete")
)

func newRulesScript(name string) *script {
	return newScript(luaText("rules") + luaText("rules_"+name))
}

// source is a [rules.Source].
type source struct {
	store   *Store
	keys    [4]string // the rows, and those of lua/rules.lua
	channel string

	mu   sync.Mutex
	look time.Time // when Version is to look for changes by hand again
	seen bool      // that there is a table
}

// errLost: there was a table, and now there is not even an empty one.
var errLost = errors.New("the server has lost the rules, as after a restart when it saves nothing to disk; restore them, or write a row to begin anew")

var _ rules.Watcher = (*source)(nil)

// enter holds the store open for op, until leave is called.
func (r *source) enter(ctx context.Context, op string) (leave func(), err error) {
	if err := r.store.enter(ctx, op, nil); err != nil {
		return nil, r.fault(op, false, errors.Unwrap(err))
	}
	return r.store.inside.RUnlock, nil
}

func (r *source) fault(op string, sent bool, err error) error {
	e, _ := errors.AsType[*limit.StoreError](r.store.fault(op, sent, err))
	if errors.Is(e.Err, limit.ErrClosed) {
		e.Err = rules.ErrSourceClosed
	}
	return &rules.SourceError{Store: "redis", Op: op, Sent: e.Sent, Err: e.Err}
}

// run runs a script of rules, and returns its answer.
func (r *source) run(ctx context.Context, op string, script *script, args ...string) ([]rueidis.RedisMessage, error) {
	leave, err := r.enter(ctx, op)
	if err != nil {
		return nil, err
	}
	defer leave()
	result := r.store.run(ctx, call{script, r.keys[:], append([]string{r.channel}, args...)})[0]
	answer, err := result.ToArray()
	if err != nil {
		return nil, r.fault(op, maySent(err), err)
	}
	return answer, nil
}

// texts returns the n texts that an answer must have.
func texts(answer []rueidis.RedisMessage, n int) ([]string, error) {
	if len(answer) != n {
		return nil, fmt.Errorf("a script answers %d values, want %d", len(answer), n)
	}
	all := make([]string, n)
	for i := range answer {
		var err error
		if all[i], err = answer[i].ToString(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Version implements [rules.Source].
func (r *source) Version(ctx context.Context) (int64, error) {
	look := ""
	r.mu.Lock()
	if now := time.Now(); !now.Before(r.look) {
		look = "look"
	}
	r.mu.Unlock()
	answer, err := r.run(ctx, "version", versionScript, look)
	if err != nil {
		return 0, err
	}
	if len(answer) != 2 {
		return 0, r.fault("version", false, fmt.Errorf("a script answers %d values, want 2", len(answer)))
	}
	version, err := answer[0].AsInt64()
	size, sizeErr := answer[1].AsInt64()
	if err := cmp.Or(err, sizeErr); err != nil {
		return 0, r.fault("version", false, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if look != "" {
		r.look = time.Now().Add(time.Duration(size) * lookPause)
	}
	if version == 0 && r.seen {
		return 0, r.fault("version", false, errLost)
	}
	r.seen = version != 0
	return version, nil
}

// List implements [rules.Source].
func (r *source) List(ctx context.Context, after int64, limit int) ([]rules.Row, error) {
	answer, err := r.run(ctx, "list", listScript, number(max(after, 0)), strconv.Itoa(limit))
	if err != nil {
		return nil, err
	}
	parts, err := texts(answer, len(answer)/3*3)
	if err != nil {
		return nil, r.fault("list", false, err)
	}
	rows := make([]rules.Row, 0, len(parts)/3)
	for i := 0; i < len(parts); i += 3 {
		row, err := readKnown(parts[i], parts[i+1], parts[i+2])
		if err != nil {
			return nil, r.fault("list", false, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Get implements [rules.Source].
func (r *source) Get(ctx context.Context, id int64) (rules.Row, error) {
	answer, err := r.run(ctx, "get", getScript, number(id))
	if err != nil {
		return rules.Row{}, err
	}
	if len(answer) == 0 {
		return rules.Row{}, rules.ErrNoRow
	}
	parts, err := texts(answer, 2)
	if err != nil {
		return rules.Row{}, r.fault("get", false, err)
	}
	row, err := readKnown(number(id), parts[0], parts[1])
	if err != nil {
		return rules.Row{}, r.fault("get", false, err)
	}
	return row, nil
}

// Put implements [rules.Source].
func (r *source) Put(ctx context.Context, row rules.Row, by string) (rules.Row, error) {
	if err := errors.Join(row.Check(), rules.CheckBy(by)); err != nil {
		return rules.Row{}, err
	}
	answer, err := r.change(ctx, "put", putScript, row.ID, row.Revision, by, writeRow(&row), row.Name, row.Path)
	if err != nil {
		return rules.Row{}, err
	}
	parts, err := texts(answer, 3)
	if err == nil {
		row.ID, err = strconv.ParseInt(parts[1], 10, 64)
	}
	if err == nil {
		err = revise(&row, parts[2])
	}
	if err != nil {
		return rules.Row{}, r.fault("put", true, err)
	}
	row.By = by
	return row, nil
}

// Delete implements [rules.Source].
func (r *source) Delete(ctx context.Context, id, revision int64, by string) error {
	if err := rules.CheckBy(by); err != nil {
		return err
	}
	_, err := r.change(ctx, "delete", deleteScript, id, revision, by)
	return err
}

// refused are the answers of scripts that have changed nothing.
var refused = map[string]error{
	"gone": rules.ErrNoRow, "changed": rules.ErrChanged, "name": rules.ErrNameTaken, "path": rules.ErrPathTaken,
}

// change runs a script that changes the row of id, which must have this revision.
func (r *source) change(ctx context.Context, op string, script *script, id, revision int64, by string, rest ...string) ([]rueidis.RedisMessage, error) {
	args := append([]string{number(id), number(revision), strconv.Itoa(maxChanges), by}, rest...)
	answer, err := r.run(ctx, op, script, args...)
	if err != nil {
		return nil, err
	}
	if len(answer) == 1 {
		what, _ := answer[0].ToString()
		return answer, refused[what]
	}
	return answer, nil
}

// History implements [rules.Source].
func (r *source) History(ctx context.Context, q rules.HistoryQuery) ([]rules.Change, error) {
	leave, err := r.enter(ctx, "history")
	if err != nil {
		return nil, err
	}
	defer leave()
	var changes []rules.Change
	for last := "+"; ; {
		if q.Before != 0 {
			last = number(q.Before-1) + "-0"
		}
		count := int64(changePage)
		if q.Row == 0 {
			count = min(count, int64(q.Limit-len(changes)))
		}
		page, err := r.store.client.Do(ctx, r.store.client.B().Xrevrange().Key(r.keys[3]).End(last).Start("-").Count(count).Build()).AsXRange()
		if err != nil {
			return nil, r.fault("history", false, err)
		}
		for _, entry := range page {
			change, err := readChange(entry)
			if err != nil {
				return nil, r.fault("history", false, err)
			}
			if q.Row == 0 || q.Row == change.Row.ID {
				changes = append(changes, change)
			}
			if len(changes) == q.Limit {
				return changes, nil
			}
			q.Before = change.N
		}
		if len(page) == 0 {
			return changes, nil
		}
	}
}

// Watch implements [rules.Watcher], on a connection of its own.
func (r *source) Watch(ctx context.Context, changed func()) error {
	ctx, stop := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop()
	looking.Go(func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				_, _ = r.Version(ctx) // the script tells of what it finds
			}
		}
	})
	err := r.store.listen(ctx, "watch", r.channel, func(string) { changed() })
	if e, ok := errors.AsType[*limit.StoreError](err); ok {
		return r.fault("watch", false, e.Err)
	}
	return err
}

// document is a row in Redis. Enabled is nil if it is true.
type document struct {
	Name     string          `json:"name,omitempty"`
	Enabled  *bool           `json:"enabled,omitempty"`
	Path     string          `json:"path,omitempty"`
	Calls    *int64          `json:"calls,omitempty"`
	PeriodMS int64           `json:"period_ms,omitempty"`
	Rule     json.RawMessage `json:"rule,omitempty"`
}

// writeRow returns what a row is in Redis.
func writeRow(row *rules.Row) string {
	d := document{Name: row.Name, Path: row.Path, PeriodMS: row.PeriodMS}
	if !row.Enabled {
		d.Enabled = new(bool)
	}
	if row.IsPlain() {
		d.Calls = &row.Calls
	} else {
		d.Rule = []byte(encode(row.Rule))
	}
	return encode(d)
}

// encode writes v in JSON, and <, > and & as they are: people read it.
func encode(v any) string {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // texts and numbers can be written
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// readRow undoes writeRow, and reads what people write. It leaves it to
// [rules.CompileTable] to say what is wrong.
func readRow(text string) rules.Row {
	d, ok := readDocument(text)
	if !ok {
		return rules.Row{Enabled: true, Rule: text}
	}
	row := rules.Row{Name: d.Name, Enabled: d.Enabled == nil || *d.Enabled, Path: d.Path, PeriodMS: d.PeriodMS, Rule: string(d.Rule)}
	switch {
	case d.Calls != nil:
		row.Calls = *d.Calls
	case d.Path != "":
		row.Calls = -1 // what is left out must not be taken for 0
	}
	if len(d.Rule) > 0 && d.Rule[0] == '"' {
		_ = json.Unmarshal(d.Rule, &row.Rule) // it has been read once
	}
	return row
}

func readDocument(text string) (d document, ok bool) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return d, false
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return d, false
	}
	_, err := decoder.Token()
	return d, err == io.EOF
}

// readKnown reads a row and what is known of it: revision, sum and author.
func readKnown(id, entry, text string) (row rules.Row, err error) {
	row = readRow(text)
	revision, rest, _ := strings.Cut(entry, " ")
	_, row.By, _ = strings.Cut(rest, " ")
	if row.ID, err = strconv.ParseInt(id, 10, 64); err != nil {
		return row, err
	}
	return row, revise(&row, revision)
}

// revise sets the revision of a row, which is when it was made, in microseconds.
func revise(row *rules.Row, revision string) (err error) {
	row.Revision, err = strconv.ParseInt(revision, 10, 64)
	row.Modified = time.UnixMicro(row.Revision).UTC()
	return err
}

func readChange(entry rueidis.XRangeEntry) (c rules.Change, err error) {
	f := entry.FieldValues
	if c.Row, err = readKnown(f["id"], f["revision"]+"  "+f["by"], f["row"]); err != nil {
		return c, fmt.Errorf("change %s of the history cannot be read: %w", entry.ID, err)
	}
	version, _, _ := strings.Cut(entry.ID, "-")
	if c.N, err = strconv.ParseInt(version, 10, 64); err != nil {
		return c, err
	}
	c.By, c.Deleted, c.At = c.Row.By, f["deleted"] != "", c.Row.Modified
	if c.Deleted {
		c.At = time.UnixMicro(c.N).UTC()
	}
	return c, nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
