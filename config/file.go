package config

import (
	"reflect"
	"time"

	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/rules"
)

// File is what people write into a configuration file. The tags name its
// fields, say which are required and which values they may have, and explain
// them; the decoder, the JSON Schema and the manual are made from them.
type File struct {
	Version       int            `yaml:"version" required:"true" enum:"1" doc:"The version of this format: 1."`
	Listen        Listen         `yaml:"listen" doc:"Where to accept connections."`
	TLS           TLS            `yaml:"tls" doc:"Certificates of the listeners, which are otherwise in the clear."`
	Proxy         Proxy          `yaml:"proxy" doc:"The reverse proxy. Without it there is none."`
	Store         string         `yaml:"store" doc:"Where exact and synced limits are counted: memory; sqlite:FILE, which outlives a restart and can be shared by the processes of a machine; the URL of a database that all processes share: postgres://, mysql://, mariadb://, mongodb://, mongodb+srv://, redis:// or rediss://; or env:NAME, the environment variable that holds one of these. A relative FILE is looked for beside the configuration. Default memory."`
	Memory        Memory         `yaml:"memory" doc:"The store in this process, which local limits always use."`
	StoreTimeout  rules.Duration `yaml:"store_timeout" doc:"The longest that a decision waits for the store, 1ms to 1m. Default 1s."`
	Sync          Sync           `yaml:"sync" doc:"How processes keep each other posted about synced limits."`
	Slots         Slots          `yaml:"slots" doc:"Reserved time slots, for programs that ask over the API when a thing may happen."`
	RulesFrom     RulesFrom      `yaml:"rules_from" doc:"A table with more rules, which hold beside those of this file and can be changed while processes run."`
	Admin         Admin          `yaml:"admin" doc:"Who may change what is in force, over the API."`
	Headers       string         `yaml:"headers" enum:"draft10,draft03,legacy,none" doc:"How answers tell what remains: RateLimit and RateLimit-Policy, X-RateLimit-*, RateLimit-*, or not at all. Default draft10."`
	Log           Log            `yaml:"log" doc:"Log lines, which go to standard error."`
	Telemetry     Telemetry      `yaml:"telemetry" doc:"What the metrics show beside what they always do."`
	ShutdownGrace rules.Duration `yaml:"shutdown_grace" doc:"How long requests in flight may take to end on shutdown, 0s to 1h. Default 20s."`
	Identity      identity.Spec  `yaml:"identity" doc:"Who the callers are: where their attributes come from."`
	rules.Spec    `yaml:",inline"`
}

// Listen is where to accept connections.
type Listen struct {
	Proxy string `yaml:"proxy" doc:"Address of the reverse proxy, or off. Port 0 takes any that is free. Default 127.0.0.1:8000."`
	API   string `yaml:"api" doc:"Address of the API, health checks and metrics, or off. Default 127.0.0.1:8080."`
	GRPC  string `yaml:"grpc" doc:"Address of Envoy's rate limit service, such as 127.0.0.1:8081, or off. Default off."`
}

// Proxy is the reverse proxy.
type Proxy struct {
	Upstream     string         `yaml:"upstream" required:"true" doc:"Where requests go: http or https, a host, and a port if it is not the usual one, such as http://127.0.0.1:9000."`
	Timeout      rules.Duration `yaml:"timeout" doc:"The longest that the upstream may take to begin its answer, 1ms to 1d. Default 30s."`
	PreserveHost bool           `yaml:"preserve_host" doc:"Pass on the Host that the caller sent, in place of the upstream's own."`
}

// Memory is the store in this process.
type Memory struct {
	MaxKeys int `yaml:"max_keys" doc:"How many keys to remember, 1 or more; beyond that the ones that would expire soonest are forgotten. Default 1000000."`
}

// Sync is how processes keep each other posted about synced limits.
type Sync struct {
	Every   rules.Duration `yaml:"every" doc:"How often a process tells the store what it has spent, and hears what the others have, 10ms to 10s. Default 200ms."`
	MaxKeys int            `yaml:"max_keys" doc:"How many keys a process keeps for that, 1 or more; those beyond are counted as with mode exact. Default 1000000."`
}

// Slots are reserved time slots.
type Slots struct {
	Store    string         `yaml:"store" doc:"Where slots are kept: sqlite:FILE, the URL of a PostgreSQL, MySQL or MariaDB database, or env:NAME, the environment variable that holds one of these. A relative FILE is looked for beside the configuration. Default off."`
	Timeout  rules.Duration `yaml:"timeout" doc:"The longest that a booking waits for the store, 100ms to 1m. Default 5s."`
	Delivery Delivery       `yaml:"delivery" doc:"How receivers are told that a slot has come, for configs that ask for it. Off without a secret."`
}

// Delivery is how receivers are told that a slot has come.
type Delivery struct {
	Secret   string         `yaml:"secret" doc:"env:NAME, the environment variable with the secret that requests are signed by, written as whsec_ and base64; or several with blanks between them, of which receivers need to know one."`
	Timeout  rules.Duration `yaml:"timeout" doc:"The longest that a receiver may take to answer, 100ms to 1m. Default 10s."`
	Attempts int            `yaml:"attempts" doc:"How many attempts are made before an event becomes a dead letter, 1 to 100. Default 12, which take two and a half hours."`
	Grace    rules.Duration `yaml:"grace" doc:"How late an event may be sent before it gets another slot, 0s to 2s. Default 0s, which stands for a hundredth of its config's window, at least 50ms."`
}

// RulesFrom is a table with more rules.
type RulesFrom struct {
	Store string         `yaml:"store" doc:"Where the table is: sqlite:FILE, the URL of a PostgreSQL, MySQL, MariaDB, MongoDB or Redis database, or env:NAME, the environment variable that holds one of these. A relative FILE is looked for beside the configuration. Default off."`
	Every rules.Duration `yaml:"every" doc:"How often to ask whether the table has changed, 10ms to 10s. Default 200ms."`
	Key   []string       `yaml:"key" doc:"What the rows in the plain form count by, as a rule's key. Default: user|ip."`
}

// Log is what is logged and how.
type Log struct {
	Format          string `yaml:"format" enum:"text,json" doc:"One line of key=value pairs, or one JSON object, for each event. Default text."`
	Level           string `yaml:"level" enum:"debug,info,warn,error" doc:"The least important that is logged. Default info."`
	DeniedPerSecond int    `yaml:"denied_per_second" doc:"How many denied requests are logged each second, 0 or more. Default 10."`
}

// Telemetry is what the metrics show beside what they always do.
type Telemetry struct {
	TopClients TopClients `yaml:"top_clients" doc:"The clients with the most requests, as stint_client_decisions_total. Off without an attribute."`
}

// TopClients are the clients that the metrics name.
type TopClients struct {
	Attribute string `yaml:"attribute" doc:"The attribute that tells clients apart, such as client. Only requests that a rule counts by it are seen."`
	Size      int    `yaml:"size" doc:"How many clients to name, 1 to 100. Default 20."`
}

// defaults returns a File as it is before anything is read into it.
func defaults() *File {
	return &File{
		Listen:        Listen{Proxy: "127.0.0.1:8000", API: "127.0.0.1:8080", GRPC: off},
		Proxy:         Proxy{Timeout: rules.Duration(30 * time.Second)},
		Store:         "memory",
		Memory:        Memory{MaxKeys: 1_000_000},
		StoreTimeout:  rules.Duration(time.Second),
		Sync:          Sync{Every: rules.Duration(200 * time.Millisecond), MaxKeys: 1_000_000},
		Slots:         Slots{Store: off, Timeout: rules.Duration(5 * time.Second), Delivery: Delivery{Timeout: rules.Duration(10 * time.Second), Attempts: 12}},
		RulesFrom:     RulesFrom{Store: off, Every: rules.Duration(200 * time.Millisecond), Key: []string{"user|ip"}},
		Headers:       "draft10",
		Log:           Log{Format: "text", Level: "info", DeniedPerSecond: 10},
		Telemetry:     Telemetry{TopClients: TopClients{Size: 20}},
		ShutdownGrace: rules.Duration(20 * time.Second),
	}
}

// off in place of an address turns a listener off.
const off = "off"

// ProxyAddress returns where the reverse proxy listens, or "" if there is none.
func (f *File) ProxyAddress() string {
	if f.Listen.Proxy == off || f.Proxy.Upstream == "" {
		return ""
	}
	return f.Listen.Proxy
}

// APIAddress returns where the API listens, or "" if it is off.
func (f *File) APIAddress() string {
	if f.Listen.API == off {
		return ""
	}
	return f.Listen.API
}

// GRPCAddress returns where Envoy's rate limit service listens, or "" if it is off.
func (f *File) GRPCAddress() string {
	if f.Listen.GRPC == off {
		return ""
	}
	return f.Listen.GRPC
}

// NeedRestart returns the names of the fields in which next differs from f and
// which a running process cannot change: all but identity, paths, plans,
// isolation and rules.
func (f *File) NeedRestart(next *File) []string {
	var changed []string
	a, b := reflect.ValueOf(f).Elem(), reflect.ValueOf(next).Elem()
	for _, field := range fieldsOf(a.Type()) {
		switch field.name {
		case "identity", "paths", "plans", "isolation", "rules":
			continue
		}
		if !reflect.DeepEqual(a.FieldByIndex(field.index).Interface(), b.FieldByIndex(field.index).Interface()) {
			changed = append(changed, field.name)
		}
	}
	return changed
}
