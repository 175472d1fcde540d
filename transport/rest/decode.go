package rest

import (
	"net/http"

	"github.com/stint-dev/stint/transport/strictjson"
)

// decodeAsk reads an Ask, strictly.
func decodeAsk(body []byte) (ask Ask, err error) {
	err = strictjson.Read(body, func(r *strictjson.Reader) []strictjson.Field {
		return []strictjson.Field{
			strictjson.Required("descriptors", func() (err error) {
				ask.Descriptors, err = descriptors(r)
				return err
			}),
			strictjson.Optional("cost", r.Whole(&ask.Cost, 1, MaxCost)),
			strictjson.Optional("peek", r.Bool(&ask.Peek)),
		}
	})
	if err != nil {
		return Ask{}, err
	}
	return ask, nil
}

func descriptors(r *strictjson.Reader) (ds []Descriptor, err error) {
	n := 0
	err = r.Array(func() error {
		var d Descriptor
		if n++; n <= MaxDescriptors {
			ds = append(ds, d)
			return ds[n-1].read(r)
		}
		return d.read(r)
	})
	switch {
	case err == nil && n == 0:
		err = strictjson.BadValue("none; 1 to %d are needed", MaxDescriptors)
	case err == nil && n > MaxDescriptors:
		err = strictjson.BadValue("%d descriptors; at most %d are allowed", n, MaxDescriptors)
	}
	return ds, err
}

func (d *Descriptor) read(r *strictjson.Reader) error {
	return r.Object(
		strictjson.Optional("method", value(r, &d.Method)),
		strictjson.Optional("host", value(r, &d.Host)),
		strictjson.Optional("path", value(r, &d.Path)),
		strictjson.Optional("headers", pairs(r, "headers", &d.Headers, func(name string) (string, error) {
			return http.CanonicalHeaderKey(name), nil
		})),
		strictjson.Optional("attributes", pairs(r, "attributes", &d.Attributes, attributeName)),
	)
}

// attributeName refuses what rules never ask for as an attribute.
func attributeName(name string) (string, error) {
	switch name {
	case "method", "host", "path":
		return "", strictjson.BadValue("give it beside attributes, not among them")
	case "api":
		return "", strictjson.BadValue("it is made of the path; give that, beside attributes")
	}
	return name, nil
}

// pairs returns what reads an object of names and texts, each name as key makes it.
func pairs(r *strictjson.Reader, kind string, to *map[string]string, key func(name string) (string, error)) func() error {
	return func() error {
		pairs := make(map[string]string)
		*to = pairs
		n := 0
		err := r.Pairs(func(name string) error {
			var text string
			n++
			if err := value(r, &text)(); err != nil || n > MaxPairs {
				return err
			}
			if len(name) == 0 || len(name) > MaxName {
				return strictjson.BadValue("the name has %d bytes; 1 to %d are allowed", len(name), MaxName)
			}
			k, err := key(name)
			if err != nil {
				return err
			}
			if _, twice := pairs[k]; twice {
				return strictjson.BadValue("given twice")
			}
			pairs[k] = text
			return nil
		})
		if err == nil && n > MaxPairs {
			err = strictjson.BadValue("%d %s; at most %d are allowed", n, kind, MaxPairs)
		}
		return err
	}
}

// value returns what reads a text.
func value(r *strictjson.Reader, to *string) func() error {
	return r.Text(func(text string) error {
		if len(text) > MaxValue {
			return strictjson.BadValue("%d bytes; at most %d are allowed", len(text), MaxValue)
		}
		*to = text
		return nil
	})
}
