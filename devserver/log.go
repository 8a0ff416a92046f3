package main

import (
	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logLevels and logFormats map the flags' words to the server's.
var (
	logLevels = map[string]zapcore.Level{
		"debug": zap.DebugLevel, "info": zap.InfoLevel, "warn": zap.WarnLevel, "error": zap.ErrorLevel, "never": zapcore.InvalidLevel,
	}
	logFormats = map[string]string{"text": "console", "pretty": "console", "json": "json"}
)

// logs is the server's logger. While the services start, and more so while they stop, one after the other, they complain
// about each other's absence: pages that say nothing. Unless more than warnings were asked for, only errors are shown
// before ready and nothing after the signal to stop.
type logs struct {
	log.Logger
	level zap.AtomicLevel
	asked zapcore.Level
}

func newLogs(o options) logs {
	l := logs{Logger: log.NewNoopLogger(), level: zap.NewAtomicLevel(), asked: logLevels[o.logLevel]}
	if o.logLevel == "never" {
		return l
	}
	l.level.SetLevel(l.asked)
	built := log.BuildZapLogger(log.Config{Level: o.logLevel, Format: logFormats[o.logFormat]}).
		WithOptions(zap.IncreaseLevel(l.level))
	if l.asked != zap.DebugLevel {
		built = built.WithOptions(zap.AddStacktrace(zap.FatalLevel)) // each is a page of interceptors
	}
	l.Logger = log.NewZapLogger(built)
	return l
}

func (l logs) starting() { l.atLeast(zap.ErrorLevel) }
func (l logs) ready()    { l.level.SetLevel(l.asked) }
func (l logs) stopping() { l.atLeast(zap.FatalLevel) }

func (l logs) atLeast(level zapcore.Level) {
	if l.asked >= zap.WarnLevel {
		l.level.SetLevel(max(level, l.asked))
	}
}
