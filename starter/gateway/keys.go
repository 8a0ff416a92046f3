package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"headgate/config"
)

// Keys are the API keys of a file, read again when it changes. They may be used
// by many goroutines.
type Keys struct {
	path  string
	log   *zap.Logger
	known atomic.Pointer[config.Keys]
	told  string // the last error; of Watch alone
	after func(time.Duration) <-chan time.Time
}

// OpenKeys reads a file of API keys (see config.ParseKeys).
func OpenKeys(path string, log *zap.Logger) (*Keys, error) {
	keys, err := config.LoadKeys(path)
	if err != nil {
		return nil, err
	}
	k := &Keys{path: path, log: log, after: time.After}
	k.known.Store(&keys)
	return k, nil
}

func (k *Keys) now() config.Keys { return *k.known.Load() }

// Watch reads the file each time that the ticks say, until ctx ends. A file that
// is broken or gone changes nothing, and is told once: a slip of the pen does not
// lock everybody out, and does not take a key back either.
func (k *Keys) Watch(ctx context.Context, every time.Duration, now <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-now:
		}
		k.reload(ctx)
	}
}

// settled is how long a changed file has to stay as it is: one that is being
// written is empty for a moment, which would shut everybody out.
const settled = 50 * time.Millisecond

func (k *Keys) reload(ctx context.Context) {
	keys, err := config.LoadKeys(k.path)
	if before := k.now(); err == nil && same(before, keys) {
		k.told = ""
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-k.after(settled):
	}
	again, err := config.LoadKeys(k.path)
	switch before := k.now(); {
	case err != nil && k.told != err.Error():
		k.told = err.Error()
		k.log.Error("the file of API keys cannot be used; those that were read before stay in force", zap.Error(err))
	case err != nil || !same(keys, again): // the next look finds it as it is then
	default:
		k.told = ""
		k.known.Store(&again)
		k.log.Info("API keys were read anew", zap.Int("before", len(before)), zap.Int("keys", len(again)))
	}
}

func same(a, b config.Keys) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Line() != b[i].Line() {
			return false
		}
	}
	return true
}
