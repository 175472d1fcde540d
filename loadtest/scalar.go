package loadtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/rules"
)

// whole is a whole number.
type whole int64

func (w *whole) UnmarshalYAML(n *yaml.Node) error {
	var number int64
	if n.Decode(&number) != nil || n.ShortTag() != "!!int" {
		return wrong(n, "a whole number is allowed here")
	}
	*w = whole(number)
	return nil
}

// duration is a span as a rules file writes it.
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	var span rules.Duration
	if n.Kind != yaml.ScalarNode {
		return wrong(n, "a duration is allowed here, such as 10s or 1m30s")
	}
	if err := span.UnmarshalText([]byte(n.Value)); err != nil {
		return wrong(n, "%v", err)
	}
	*d = duration(span)
	return nil
}

func (d duration) String() string { return rules.Duration(d).String() }

// share is a part of 1, written as such or in percent.
type share float64

func (s *share) UnmarshalYAML(n *yaml.Node) error {
	text, inPercent := strings.CutSuffix(n.Value, "%")
	f, err := strconv.ParseFloat(text, 64)
	if inPercent {
		f /= 100
	}
	if n.Kind != yaml.ScalarNode || err != nil || !(f >= 0 && f < 1) {
		return wrong(n, "%q is not a share; 0 to less than 1 is allowed, or 0%% to less than 100%%", n.Value)
	}
	*s = share(f)
	return nil
}

// wrong is an error that the YAML library collects with its own.
func wrong(n *yaml.Node, format string, args ...any) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: ", n.Line) + fmt.Sprintf(format, args...)}}
}
