package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/rules"
)

// check reports what is wrong at path, unless the value there could not be
// read in the first place.
func (l *loading) check(path string, err error) {
	if err != nil && !l.incomplete(path) {
		l.add(locate(l.root, path), path, "%v", err)
	}
}

// warn reports what is allowed at path, and probably not meant.
func (l *loading) warn(path, format string, args ...any) {
	at := locate(l.root, path)
	l.put(Problem{Line: at.Line, Column: at.Column, Path: path, Warning: true, Message: fmt.Sprintf(format, args...)})
}

// checkFile checks all but identity, plans and rules.
func (l *loading) checkFile() {
	f := l.file
	l.check("listen.proxy", checkAddress(f.Listen.Proxy))
	l.check("listen.api", checkAddress(f.Listen.API))
	if _, port, _ := net.SplitHostPort(f.ProxyAddress()); f.ProxyAddress() == f.APIAddress() && port != "0" && f.APIAddress() != "" {
		l.check("listen.api", fmt.Errorf("%q is the address of the proxy, too; choose another port for one of them", f.Listen.API))
	}
	l.check("listen.grpc", checkAddress(f.Listen.GRPC))
	for _, other := range []struct{ what, address string }{{"proxy", f.ProxyAddress()}, {"API", f.APIAddress()}} {
		if _, port, _ := net.SplitHostPort(f.GRPCAddress()); f.GRPCAddress() == other.address && port != "0" && other.address != "" {
			l.check("listen.grpc", fmt.Errorf("%q is the address of the %s, too; choose another port for one of them", f.Listen.GRPC, other.what))
		}
	}
	if _, proxy, _ := step(l.root, "proxy"); proxy != nil {
		l.check("proxy.upstream", checkUpstream(f.Proxy.Upstream))
	}
	l.check("proxy.timeout", checkSpan(f.Proxy.Timeout, time.Millisecond, 24*time.Hour))
	l.check("store", checkStore(f.Store))
	l.check("memory.max_keys", checkNumber(f.Memory.MaxKeys, 1, 1<<30))
	l.check("store_timeout", checkSpan(f.StoreTimeout, time.Millisecond, time.Minute))
	l.check("sync.every", checkSpan(f.Sync.Every, 10*time.Millisecond, 10*time.Second))
	l.check("sync.max_keys", checkNumber(f.Sync.MaxKeys, 1, 1<<30))
	l.check("slots.store", checkTableStore(f.Slots.Store, "slots"))
	l.check("slots.timeout", checkSpan(f.Slots.Timeout, 100*time.Millisecond, time.Minute))
	l.check("slots.delivery.secret", checkSecret(f))
	l.check("slots.delivery.timeout", checkSpan(f.Slots.Delivery.Timeout, 100*time.Millisecond, time.Minute))
	l.check("slots.delivery.attempts", checkNumber(f.Slots.Delivery.Attempts, 1, 100))
	l.check("slots.delivery.grace", checkSpan(f.Slots.Delivery.Grace, 0, 2*time.Second))
	l.check("rules_from.store", checkTableStore(f.RulesFrom.Store, "rules"))
	l.check("rules_from.every", checkSpan(f.RulesFrom.Every, 10*time.Millisecond, 10*time.Second))
	for _, p := range rules.CheckKey("rules_from.key", f.RulesFrom.Key) {
		l.check(p.Path, errors.New(p.Message))
	}
	l.checkAdmin()
	l.check("log.denied_per_second", checkNumber(f.Log.DeniedPerSecond, 0, 1_000_000))
	l.check("telemetry.top_clients.attribute", checkTopAttribute(f.Telemetry.TopClients.Attribute))
	l.check("telemetry.top_clients.size", checkNumber(f.Telemetry.TopClients.Size, 1, 100))
	l.check("shutdown_grace", checkSpan(f.ShutdownGrace, 0, time.Hour))
}

// isOtherVersion reports that the file is of another version, of which nothing
// else can be said.
func (d *decoder) isOtherVersion(root *yaml.Node) bool {
	key, value, _ := step(root, "version")
	if value == nil {
		return false
	}
	value = resolve(value)
	if i, err := parseInt(value); !isPlain(value) || err != nil || i == 1 {
		return false
	}
	d.add(key, "version", "%s is a version that this release does not know; 1 is allowed", value.Value)
	return true
}

// checkToken checks what can be told without the environment.
func checkToken(f *File) error {
	name, isName := strings.CutPrefix(f.Admin.Token, environment)
	switch {
	case f.Admin.Token != "" && (!isName || name == ""):
		return errors.New("the token does not belong in this file; name an environment variable that holds it, such as env:STINT_ADMIN_TOKEN")
	case f.AdminClosed() && (f.Slots.Store != off || f.RulesFrom.Store != off):
		what := "slots are"
		if f.Slots.Store == off {
			what = "rules_from is"
		}
		return fmt.Errorf("listen.api is %s, which others can reach, and %s not off; write admin: {token: env:STINT_ADMIN_TOKEN}", quote(f.Listen.API), what)
	}
	return nil
}

// checkSecret checks what can be told without the environment.
func checkSecret(f *File) error {
	name, isName := strings.CutPrefix(f.Slots.Delivery.Secret, environment)
	switch {
	case f.Slots.Delivery.Secret != "" && (!isName || name == ""):
		return errors.New("the secret does not belong in this file; name an environment variable that holds it, such as env:STINT_WEBHOOK_SECRET")
	case f.Slots.Delivery.Secret != "" && f.Slots.Store == off:
		return errors.New("there is nothing to deliver while slots.store is off")
	}
	return nil
}

// findSecret makes what the file says of the secret the secret. Whether it can be
// signed by is for the one who does to say.
func (l *loading) findSecret() {
	if l.file.Slots.Delivery.Secret == "" || checkSecret(l.file) != nil {
		return
	}
	name := strings.TrimPrefix(l.file.Slots.Delivery.Secret, environment)
	secret := os.Getenv(name)
	if strings.TrimSpace(secret) == "" {
		l.check("slots.delivery.secret", fmt.Errorf("the environment variable %s holds nothing; set it to a secret: echo whsec_$(openssl rand -base64 32)", quote(name)))
	}
	l.file.Slots.Delivery.Secret = secret
}

// minToken is how long a token must be that is not to be guessed.
const minToken = 16

// findToken makes what the file says of the token the token.
func (l *loading) findToken() {
	if l.file.Admin.Token == "" || checkToken(l.file) != nil {
		return
	}
	name := strings.TrimPrefix(l.file.Admin.Token, environment)
	token := os.Getenv(name)
	if len(token) < minToken {
		l.check("admin.token", fmt.Errorf("the environment variable %s holds %d bytes; a token of %d or more is needed", quote(name), len(token), minToken))
	}
	l.file.Admin.Token = token
}

// onLoopback reports whether only this machine can reach address. "" is nowhere.
func onLoopback(address string) bool {
	if address == "" {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // that has been reported
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func checkAddress(address string) error {
	if address == off {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s is not an address; host:port is allowed, such as 127.0.0.1:8080, or off", quote(address))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s is not a port; 0 to 65535 is allowed", quote(port))
	} else if strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%s is not a port; write %d", quote(port), n)
	}
	return nil
}

func checkUpstream(text string) error {
	const help = "http or https and a host are allowed, such as http://127.0.0.1:9000"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL; " + help) // the text may hold a password
	case u.User != nil:
		return errors.New("has a user or password in it; callers send their own, " + help)
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return fmt.Errorf("%s is not the URL of a service; %s", quote(text), help)
	case u.Path != "" && u.Path != "/", u.RawQuery != "" || u.ForceQuery, u.Fragment != "":
		return fmt.Errorf("%s leads to more than a host; %s", quote(text), help)
	case u.Port() != "":
		return checkAddress(u.Host)
	}
	return nil
}

func checkSpan(d rules.Duration, least, most time.Duration) error {
	if time.Duration(d) < least || time.Duration(d) > most {
		return fmt.Errorf("%v is out of bounds; %v to %v is allowed", d, rules.Duration(least), rules.Duration(most))
	}
	return nil
}

func checkNumber(n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%d is out of bounds; %d to %d is allowed", n, least, most)
	}
	return nil
}

func checkTopAttribute(name string) error {
	if name != "" && !rules.IsAttributeName(name) {
		return fmt.Errorf("%s is not an attribute; letters, digits, _ and - are allowed, 1 to 64 of them", quote(name))
	}
	return nil
}

// variable is a {name} or {name...} of a path template.
var variable = regexp.MustCompile(`\{([^{}]*?)(?:\.\.\.)?\}`)

// caughtBy returns the variables of a path template: all of each, and its name.
func caughtBy(template string) [][]string {
	if !strings.Contains(template, "{") {
		return nil
	}
	return variable.FindAllStringSubmatch(template, -1)
}

// checkAttributes holds the attributes that the rules depend on against those
// that there are.
func (l *loading) checkAttributes() {
	if l.root == nil {
		return
	}
	identified := l.file.identified()
	if i := l.file.Isolation; i != nil && l.file.Proxy.Upstream != "" && !l.incomplete("identity.attributes") {
		known := slices.Concat(identified, requestAttributes)
		for name := range strings.SplitSeq(i.Tenant, "|") {
			if name = strings.TrimSpace(name); !slices.Contains(known, name) {
				l.warn("isolation.tenant", "identity does not give %s%s; requests without it are one tenant together", quote(name), didYouMean(rules.Closest(name, known)))
			}
		}
	}
	if i := l.file.Isolation; i != nil && l.file.Store == "memory" {
		for name, plan := range i.Plans {
			if plan.Shared {
				l.warn("isolation.plans."+name+".shared", "store is memory, so max_seats counts in this process alone; name a store that the processes share")
			}
		}
	}
	for i := range l.file.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		for _, p := range l.file.attributeProblems(&l.file.Rules[i], identified) {
			path := join(at, p.Path)
			switch {
			case !p.Warning:
				l.check(path, errors.New(p.Message))
			case !l.incomplete(at+".match") && !l.incomplete("identity.attributes"):
				l.warn(path, "%s", p.Message)
			}
		}
	}
}

// requestAttributes are those that every request has.
var requestAttributes = []string{"method", "host", "path", "api", "plan"}

// identified returns the attributes that identity gives.
func (f *File) identified() []string {
	return append(slices.Collect(maps.Keys(f.Identity.Attributes)), "ip")
}

// attributeProblems holds the attributes that a rule depends on against those
// that there are.
func (f *File) attributeProblems(rule *rules.RuleSpec, identified []string) (found []rules.Problem) {
	known := slices.Concat(identified, requestAttributes)
	for _, caught := range caughtBy(rule.Match.Path) {
		if slices.Contains(identified, caught[1]) {
			found = append(found, rules.Problem{Path: "match.path", Message: fmt.Sprintf("{%s} is also the name of an identity attribute; rename one of them", caught[1])})
		}
		known = append(known, caught[1])
	}
	if f.Proxy.Upstream == "" || f.GRPCAddress() != "" {
		return found // callers of the API, and Envoy, set attributes of their own
	}
	need := func(path, name string) {
		if !slices.Contains(known, name) {
			found = append(found, rules.Problem{Path: path, Warning: true, Message: fmt.Sprintf(
				"neither identity nor this rule's path gives %s%s; only callers of the API can set it", quote(name), didYouMean(rules.Closest(name, known)))})
		}
	}
	for j, text := range rule.Key {
		for name := range strings.SplitSeq(text, "|") {
			need(fmt.Sprintf("key[%d]", j), strings.TrimSpace(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rule.Match.Attributes)) {
		need(join("match.attributes", name), name)
	}
	for j, override := range rule.Overrides {
		for _, name := range slices.Sorted(maps.Keys(override.When)) {
			need(join(fmt.Sprintf("overrides[%d].when", j), name), name)
		}
	}
	return found
}

// cause returns err without the name of the file, which a Problem has anyway.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
