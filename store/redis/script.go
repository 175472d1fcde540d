package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit/algo"
)

//go:embed lua
var lua embed.FS

var (
	probeScript = newScript(luaText("probe"))
	swapScript  = newScript(luaText("swap"))
	takeScripts = map[*algo.Algorithm]*script{
		algo.GCRA:    newTakeScript("gcra"),
		algo.Fixed:   newTakeScript("fixed"),
		algo.Sliding: newTakeScript("sliding"),
	}
)

// script is a Lua script, and the name under which a server remembers it.
type script struct{ text, sha string }

func newScript(text string) *script {
	text = luaText("cells") + text
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

func newTakeScript(algorithm string) *script {
	return newScript(strings.Replace(luaText("take"), "--[[ the algorithm ]]", luaText(algorithm), 1))
}

func luaText(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is part of this program
	}
	return string(text)
}

// call is one run of a script. Its keys lie together.
type call struct {
	script     *script
	keys, args []string
}

// run does calls in one trip. None is ever sent again once it may have been
// carried out.
func (s *Store) run(ctx context.Context, calls ...call) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, len(calls))
	for i, c := range calls {
		commands[i] = s.client.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	results := s.send(ctx, commands)
	var unknown []int // those whose server has not seen the script yet
	for i, r := range results {
		if e, ok := rueidis.IsRedisErr(r.Error()); ok && e.IsNoScript() {
			unknown = append(unknown, i)
		}
	}
	if unknown == nil {
		return results
	}
	commands = commands[:0]
	for _, c := range pick(calls, unknown) {
		commands = append(commands, s.client.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build())
	}
	for i, r := range s.send(ctx, commands) {
		results[unknown[i]] = r
	}
	return results
}

func (s *Store) send(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	if len(commands) == 1 { // the shorter way
		return []rueidis.RedisResult{s.client.Do(ctx, commands[0])}
	}
	return s.client.DoMulti(ctx, commands...)
}

// args returns the arguments that scripts begin with, and then rest. By its
// first bit a version differs from what scripts return in place of a value.
func (s *Store) args(rest ...string) []string {
	version := binary.BigEndian.AppendUint64(nil, rand.Uint64()|1<<63)
	return append([]string{s.clock, string(version)}, rest...)
}

// versionArg is where args has the version that a script writes.
const versionArg = 1

// outcome returns the first error of results, and whether any of them may have
// had an effect.
func outcome(results []rueidis.RedisResult) (sent bool, err error) {
	for _, r := range results {
		failed := r.Error()
		if err == nil {
			err = failed
		}
		sent = sent || failed == nil || maySent(failed)
	}
	return sent, err
}
