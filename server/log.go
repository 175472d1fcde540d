package server

import (
	"context"
	"io"
	"log/slog"

	"github.com/stint-dev/stint/config"
)

func newLogger(w io.Writer, o config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.Level)) // checked when the file was loaded
	options := &slog.HandlerOptions{Level: level}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func logProblems(logger *slog.Logger, problems []config.Problem) {
	for _, p := range problems {
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		logger.Log(context.Background(), level, "configuration: "+p.Message, "file", p.File, "line", p.Line, "field", p.Path)
	}
}
