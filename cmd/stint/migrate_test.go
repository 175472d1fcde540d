package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMigrateNeedsNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STINT_TEST_STORE", "sqlite:stint.db")
	file := filepath.Join(dir, "stint.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nstore: sqlite:stint.db\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--store", "memory"}, "nothing to do: memory needs no tables\n"},
		{[]string{"--store", "memory", "--print"}, "nothing to do: memory needs no tables\n"},
		{[]string{"--store", "sqlite:stint.db"}, "nothing to do: sqlite makes its tables when it is opened\n"},
		{[]string{"--store", "env:STINT_TEST_STORE"}, "nothing to do: sqlite makes its tables when it is opened\n"},
		{[]string{"--config", file}, "nothing to do: sqlite makes its tables when it is opened\n"},
		{[]string{"-c", file, "--print"}, "nothing to do: sqlite makes its tables when it is opened\n"},
	} {
		if code, out, errs := stint(t, append([]string{"migrate"}, tt.args...)...); code != exitOK || out != tt.want || errs != "" {
			t.Errorf("%v: %d %q %q; want %q", tt.args, code, out, errs, tt.want)
		}
	}
}

func TestMigrateRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nstore: postgre://stint:hunter2@db/stint\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	unset := filepath.Join(dir, "unset.yaml")
	if err := os.WriteFile(unset, []byte("version: 1\nstore: env:STINT_TEST_ABSENT\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--store", "postgre://stint:hunter2@db/stint"}, exitFailed, `--store: "postgre" is not a store (did you mean postgres?)`},
		{[]string{"--store", "env:STINT_TEST_ABSENT"}, exitFailed, "--store: the environment has no variable"},
		{[]string{"--config", bad}, exitConfig, `bad.yaml:2:1: store: "postgre" is not a store (did you mean postgres?)`},
		{[]string{"--config", unset}, exitFailed, "unset.yaml: store: the environment has no variable"},
		{[]string{"--config", filepath.Join(dir, "absent.yaml")}, exitFailed, "name a store by --store, or a rules file by --config"},
		{[]string{"postgres://stint:hunter2@db/stint"}, exitUsage, "unexpected argument postgres://stint:...@db/stint"},
	} {
		code, out, errs := stint(t, append([]string{"migrate"}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%v: %d %q %q; want %d and %q", tt.args, code, out, errs, tt.code, tt.want)
		}
		if strings.Contains(errs, "hunter2") {
			t.Errorf("%v: the password is printed: %s", tt.args, errs)
		}
	}
}
