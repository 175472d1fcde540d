package replay

import (
	"net/netip"
	"strings"
)

// malformed is why a line cannot be read.
type malformed string

func (m malformed) Error() string { return string(m) }

const (
	errNoTime        = malformed("no time in brackets after host, identity and user")
	errFields        = malformed("fewer than 3 fields before the time; host, identity and user are expected")
	errTime          = malformed("the time is not like 02/Jan/2006:15:04:05 -0700")
	errEarly         = malformed("the time is before 1970")
	errNoRequest     = malformed("no request in quotes after the time")
	errOpenQuote     = malformed("a quote is not closed")
	errRequestDash   = malformed(`the request is "-": the connection sent none`)
	errRequest       = malformed("the request is not like GET /path HTTP/1.1")
	errRequestMethod = malformed("the method of the request has other characters than letters, digits, - and _")
)

// combinedParser reads the common and the combined log format of Apache and
// nginx, with or without the virtual host in front.
type combinedParser struct{ clock clfClock }

func (p *combinedParser) parse(line string, e *entry) error {
	open := strings.Index(line, " [")
	if open < 0 {
		return errNoTime
	}
	before, rest := line[:open], line[open+2:]
	stamp, rest, ok := strings.Cut(rest, "]")
	if !ok {
		return errNoTime
	}
	if !e.setCaller(before) {
		return errFields
	}
	at, err := p.clock.parse(stamp)
	if err != nil {
		return err
	}
	e.at = at
	quoted, ok := strings.CutPrefix(rest, ` "`)
	if !ok {
		return errNoRequest
	}
	request, rest, ok := cutQuoted(quoted)
	if !ok {
		return errOpenQuote
	}
	if err := e.setRequest(request); err != nil {
		return err
	}
	return e.setHeaders(rest)
}

// setCaller reads what stands before the time: [virtual host] host identity
// user. A user may have spaces in it.
func (e *entry) setCaller(s string) bool {
	first, rest, ok := strings.Cut(s, " ")
	second, rest, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 {
		return false
	}
	e.ip, e.user = first, rest
	// Behind a virtual host, what would be the identity is an address. It has
	// a dot or a colon, which saves the look at most lines.
	if strings.ContainsAny(second, ".:") && isAddress(second) {
		if _, user, ok := strings.Cut(rest, " "); ok {
			e.host, e.ip, e.user = first, second, user
		}
	}
	if e.user == "-" || e.user == `""` {
		e.user = ""
	}
	return true
}

// setRequest reads a request line. A very old one has no protocol.
func (e *entry) setRequest(s string) error {
	if s == "-" || s == "" {
		return errRequestDash
	}
	method, target, ok := strings.Cut(s, " ")
	if !ok {
		return errRequest
	}
	if i := strings.LastIndex(target, " HTTP/"); i >= 0 {
		target = target[:i]
	}
	if target == "" {
		return errRequest
	}
	for i := range len(method) {
		if !isMethodByte(method[i]) {
			return errRequestMethod
		}
	}
	if method == "" {
		return errRequest
	}
	e.method = method
	e.setTarget(target)
	return nil
}

// setHeaders reads what stands behind the request: status, bytes and, in the
// combined format, referer and user agent. What else follows is not looked at.
func (e *entry) setHeaders(s string) error {
	for _, to := range []*string{&e.referer, &e.userAgent} {
		open := strings.IndexByte(s, '"')
		if open < 0 {
			return nil
		}
		value, rest, ok := cutQuoted(s[open+1:])
		if !ok {
			return errOpenQuote
		}
		if value != "-" {
			*to = value
		}
		s = rest
	}
	return nil
}

// cutQuoted cuts s at the quote that closes it. A quote, a backslash or a
// control character within is escaped: \" and \t by Apache, \x22 by nginx.
func cutQuoted(s string) (value, rest string, ok bool) {
	end := strings.IndexByte(s, '"')
	if end < 0 {
		return "", "", false
	}
	if strings.IndexByte(s[:end], '\\') < 0 {
		return s[:end], s[end+1:], true
	}
	return cutEscaped(s)
}

func cutEscaped(s string) (value, rest string, ok bool) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return string(out), s[i+1:], true
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				out = append(out, '\n')
			case 't':
				out = append(out, '\t')
			case 'r':
				out = append(out, '\r')
			case 'b':
				out = append(out, '\b')
			case 'v':
				out = append(out, '\v')
			case 'f':
				out = append(out, '\f')
			case 'x':
				if i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
					out = append(out, unhex(s[i+1])<<4|unhex(s[i+2]))
					i += 2
				} else {
					out = append(out, 'x')
				}
			default:
				out = append(out, s[i])
			}
		default:
			out = append(out, c)
		}
	}
	return "", "", false
}

// isAddress reports whether s is an IP address.
func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func isMethodByte(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
