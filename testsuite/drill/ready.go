package drill

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"headgate/testsuite/proxy"
)

// A readiness is called before a run starts, and returns what waits until that
// run serves.
type readiness func() func(ctx context.Context) error

// asking is a readiness that is asked for.
func asking(what string, ask func(ctx context.Context) error) readiness {
	return func() func(context.Context) error {
		return func(ctx context.Context) error {
			var last error
			err := until(ctx, what, func(ctx context.Context) (bool, error) {
				ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				last = ask(ctx)
				return last == nil, nil
			})
			if err != nil {
				err = errors.Join(err, last)
			}
			return err
		}
	}
}

// polling is the readiness of a worker: it asks for work.
func polling(p *Process, rule proxy.Rule) readiness {
	return func() func(context.Context) error {
		point := p.Proxy.Place(rule)
		return func(ctx context.Context) error {
			defer point.Release()
			return point.Reached(ctx)
		}
	}
}

// saying is the readiness of a program that says so in a line of its log.
func saying(p *Process, prefix string) readiness {
	return func() func(context.Context) error {
		before, _ := os.ReadFile(p.log) // none before the first run
		return func(ctx context.Context) error {
			return until(ctx, "the log says "+prefix, func(context.Context) (bool, error) {
				now, err := os.ReadFile(p.log)
				if err != nil {
					return false, err
				}
				said := append([]byte("\n"), now[min(len(before), len(now)):]...)
				return bytes.Contains(said, []byte("\n"+prefix)), nil
			})
		}
	}
}
