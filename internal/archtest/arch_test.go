// Package archtest holds the import table of ARCHITECTURE.md against the code.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/stint-dev/stint"

// row is one row of the table.
type row struct {
	floor   string // compared as text: 1 < 1.1 < 2
	ours    []string
	outside []string // import paths or their beginnings
}

func TestImportsAreThoseOfTheTable(t *testing.T) {
	table := readTable(t)
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if strings.HasPrefix(name, "internal/archtest") {
			continue
		}
		seen[name] = true
		r, ok := table[name]
		if !ok {
			t.Errorf("%s has no row in the table of ARCHITECTURE.md", name)
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", name)
		}
		ours := []string{}
		for _, path := range p.Imports {
			if other, own := strings.CutPrefix(path, module+"/"); own {
				ours = append(ours, other)
				if below, ok := table[other]; ok && below.floor >= r.floor {
					t.Errorf("%s (floor %s) imports %s (floor %s): imports go downwards only", name, r.floor, other, below.floor)
				}
				continue
			}
			first, _, _ := strings.Cut(path, "/")
			outside := strings.Contains(first, ".")
			if outside && !slices.ContainsFunc(r.outside, func(allowed string) bool { return path == allowed || strings.HasPrefix(path, allowed+"/") }) {
				t.Errorf("%s imports %s, which its row does not allow", name, path)
			}
		}
		slices.Sort(ours)
		if diff := cmp.Diff(r.ours, ours); diff != "" {
			t.Errorf("%s imports of ours (-table +code):\n%s", name, diff)
		}
	}
	for name := range table {
		if !seen[name] {
			t.Errorf("the table has a row for %s, which is not there", name)
		}
	}
}

// pure packages decide without I/O, a clock, a goroutine or a lock. Each may have
// an exception: the rules of time zones are in package time, and so are durations.
var pure = map[string]string{"isolate/fair": "time", "limit/algo": "", "slots/plan": "time"}

func TestPurePackagesImportNothingImpure(t *testing.T) {
	impure := []string{"context", "crypto", "io", "log", "net", "os", "runtime", "sync", "syscall", "time", "unsafe"}
	for _, p := range listPackages(t) {
		except, is := pure[strings.TrimPrefix(p.ImportPath, module+"/")]
		if !is {
			continue
		}
		for _, path := range p.Imports {
			if first, _, _ := strings.Cut(path, "/"); slices.Contains(impure, first) && path != except {
				t.Errorf("%s imports %s", p.ImportPath, path)
			}
		}
	}
}

func readTable(t *testing.T) map[string]row {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]row{}
	_, after, found := strings.Cut(string(text), "| floor | package |")
	if !found {
		t.Fatal("ARCHITECTURE.md has no table")
	}
	for line := range strings.Lines(after) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.ContainsAny(cells[1], "0123456789") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[5] == "" {
			t.Errorf("the row of %s gives no reason", cells[2])
		}
		table[strings.Trim(cells[2], "`")] = row{cells[1], list(cells[3]), list(cells[4])}
	}
	return table
}

func list(cell string) []string {
	names := strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' || r == '`' })
	slices.Sort(names)
	return slices.DeleteFunc(append([]string{}, names...), func(s string) bool { return s == "-" })
}

type goPackage struct {
	ImportPath, Doc string
	Imports         []string
}

func listPackages(t *testing.T) (all []goPackage) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
