package rls

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/gate"
)

// Bounds of a request. The length of a value has none of its own: visitors choose
// values, and a request that is refused is let through by an Envoy that fails open.
const (
	MaxMessage     = 1 << 20 // bytes
	MaxDescriptors = 1000
	MaxEntries     = 64  // of a descriptor
	MaxKey         = 256 // bytes in an entry's key
	MaxDomain      = 256 // bytes
)

// Attributes that every descriptor has, besides those of its entries.
const (
	domainAttribute     = "domain"
	descriptorAttribute = "descriptor"
	positionAttribute   = "entry_" // and the position, from 1
	entriesAttribute    = "entries"
)

// badRequest is what is wrong with a request: the field, the value, what is allowed.
type badRequest struct{ message string }

func (e *badRequest) Error() string { return e.message }

func bad(format string, args ...any) error { return &badRequest{fmt.Sprintf(format, args...)} }

// entry is one key and value of a descriptor.
type entry struct{ key, value string }

// descriptor is one that is asked about, as rules look at it.
type descriptor struct {
	domain     string
	entries    []entry
	begin, end int // of entries among those of the request
	// hits is what is charged in place of the request's, if hasHits.
	hits    uint64
	hasHits bool
	limit   override
}

// override is a limit that the request brings along.
type override struct {
	given bool
	quota uint32
	unit  uint64
}

// units are those of an override, which are not those of an answer: it has no week.
var units = [...]time.Duration{
	1: time.Second,
	2: time.Minute,
	3: time.Hour,
	4: day,
	5: 30 * day,
	6: 365 * day,
}

const day = 24 * time.Hour

// decode reads the message that c has, and checks it.
func (c *call) decode() error {
	f := fields{c.message}
	for {
		number, kind, ok, err := f.next()
		switch {
		case err != nil:
			return err
		case !ok:
			return c.check()
		case number == 1 && kind == wireBytes:
			c.domain, err = f.bytes()
		case number == 2 && kind == wireBytes:
			var text string
			if text, err = f.bytes(); err == nil {
				err = c.decodeDescriptor(text)
			}
		case number == 3 && kind == wireVarint:
			var n uint64
			n, err = f.varint()
			c.hits = uint64(uint32(n))
		default:
			err = f.skip(kind)
		}
		if err != nil {
			return err
		}
	}
}

func (c *call) decodeDescriptor(text string) error {
	n := len(c.descriptors)
	if n == MaxDescriptors {
		return bad("descriptors: more than %d; at most %d are allowed", MaxDescriptors, MaxDescriptors)
	}
	c.descriptors = append(c.descriptors, descriptor{begin: len(c.entries)})
	d := &c.descriptors[n]
	f := fields{text}
	for {
		number, kind, ok, err := f.next()
		if err == nil && !ok {
			d.end = len(c.entries)
			return nil
		}
		var part string
		if err == nil && kind == wireBytes {
			part, err = f.bytes()
		} else if err == nil {
			err = f.skip(kind)
		}
		if err == nil && kind == wireBytes {
			switch number {
			case 1:
				err = c.decodeEntry(part, n, len(c.entries)-d.begin)
			case 2:
				d.limit.given = true
				err = d.limit.decode(part)
			case 3:
				d.hasHits = true
				err = decodeNumber(part, &d.hits)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (c *call) decodeEntry(text string, n, i int) error {
	if i == MaxEntries {
		return bad("descriptors[%d].entries: more than %d; at most %d are allowed", n, MaxEntries, MaxEntries)
	}
	var e entry
	f := fields{text}
	for {
		number, kind, ok, err := f.next()
		switch {
		case err != nil:
		case !ok:
			if e.key == "" || len(e.key) > MaxKey {
				return bad("descriptors[%d].entries[%d].key: %d bytes; 1 to %d are allowed", n, i, len(e.key), MaxKey)
			}
			c.entries = append(c.entries, e)
			return nil
		case number == 1 && kind == wireBytes:
			e.key, err = f.bytes()
		case number == 2 && kind == wireBytes:
			e.value, err = f.bytes()
		default:
			err = f.skip(kind)
		}
		if err != nil {
			return err
		}
	}
}

func (o *override) decode(text string) error {
	f := fields{text}
	for {
		number, kind, ok, err := f.next()
		switch {
		case err != nil:
		case !ok:
			return nil
		case number == 1 && kind == wireVarint:
			var n uint64
			n, err = f.varint()
			o.quota = uint32(n)
		case number == 2 && kind == wireVarint:
			o.unit, err = f.varint()
		default:
			err = f.skip(kind)
		}
		if err != nil {
			return err
		}
	}
}

// decodeNumber reads a message that wraps one number.
func decodeNumber(text string, to *uint64) error {
	f := fields{text}
	for {
		number, kind, ok, err := f.next()
		switch {
		case err != nil:
		case !ok:
			return nil
		case number == 1 && kind == wireVarint:
			*to, err = f.varint()
		default:
			err = f.skip(kind)
		}
		if err != nil {
			return err
		}
	}
}

// check finds what is wrong with a request that has been read, and completes its
// descriptors.
func (c *call) check() error {
	switch {
	case c.domain == "":
		return bad("domain: is empty; 1 to %d bytes are allowed", MaxDomain)
	case len(c.domain) > MaxDomain:
		return bad("domain: %d bytes; 1 to %d are allowed", len(c.domain), MaxDomain)
	case len(c.descriptors) == 0:
		return bad("descriptors: none; 1 to %d are needed", MaxDescriptors)
	}
	for i := range c.descriptors {
		d := &c.descriptors[i]
		if d.begin == d.end {
			return bad("descriptors[%d].entries: none; 1 to %d are needed", i, MaxEntries)
		}
		if u := d.limit.unit; d.limit.given && (u == 0 || u >= uint64(len(units))) {
			return bad("descriptors[%d].limit.unit: %d; 1 (second) to %d (year) are allowed", i, u, len(units)-1)
		}
		d.domain, d.entries = c.domain, c.entries[d.begin:d.end:d.end]
	}
	return nil
}

// cost returns what d costs in the gate's terms.
func (d *descriptor) cost(ofRequest uint64) int64 {
	switch {
	case !d.hasHits:
		return int64(ofRequest) // 0 is the rule's own cost
	case d.hits == 0:
		return gate.Look
	}
	return int64(min(d.hits, math.MaxInt64))
}

func (d *descriptor) find(key string) (string, bool) {
	for i := range d.entries {
		if d.entries[i].key == key {
			return d.entries[i].value, true
		}
	}
	return "", false
}

// Method, Host and Path are the entries of that name, if there are any.
func (d *descriptor) Method() string     { value, _ := d.find("method"); return value }
func (d *descriptor) Host() string       { value, _ := d.find("host"); return value }
func (d *descriptor) Path() string       { value, _ := d.find("path"); return value }
func (*descriptor) Header(string) string { return "" }

// Attribute returns the domain, the keys of all entries with a slash between
// them, the value of the entry at a position, or that of the first with a key.
func (d *descriptor) Attribute(name string) (string, bool) {
	switch name {
	case domainAttribute:
		return d.domain, true
	case descriptorAttribute:
		return d.keys(), true
	case entriesAttribute:
		return d.all(), true
	}
	if position, ok := strings.CutPrefix(name, positionAttribute); ok {
		n, err := strconv.ParseUint(position, 10, 16)
		if err != nil || n < 1 || n > uint64(len(d.entries)) {
			return "", false
		}
		return d.entries[n-1].value, true
	}
	return d.find(name)
}

// keys returns the keys with a slash between them. In a key a slash is %2F and
// a percent sign %25, so that no two lists of keys read the same.
func (d *descriptor) keys() string {
	if len(d.entries) == 1 && !strings.ContainsAny(d.entries[0].key, "/%") {
		return d.entries[0].key
	}
	var b strings.Builder
	for i := range d.entries {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(EscapeKey(d.entries[i].key))
	}
	return b.String()
}

var keyEscaper = strings.NewReplacer("%", "%25", "/", "%2F")

// EscapeKey returns an entry's key as it is written in the attribute descriptor.
func EscapeKey(key string) string { return keyEscaper.Replace(key) }

// all returns all entries as one text, no two lists alike.
func (d *descriptor) all() string {
	var b []byte
	for _, e := range d.entries {
		b = appendBytes(appendBytes(b, 1, e.key), 2, e.value)
	}
	return string(b)
}
