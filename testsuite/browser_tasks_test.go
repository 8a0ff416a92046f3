package testsuite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
)

// TestBrowserTasks sends TASKS tasks (12 if it is not set; the measured run has
// 200) through two sessions of one worker that would take four: each slot is
// booked once, never more than two at a time, and the memory of the browser is
// bounded by its being replaced.
func TestBrowserTasks(t *testing.T) {
	tasks := 12
	if text := os.Getenv("TASKS"); text != "" {
		var err error
		tasks, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Duration(tasks)*5*time.Second)
	defer cancel()
	p := newPages(ctx, t)
	start := time.Now()
	for i := range tasks {
		key := fmt.Sprintf("n%d", i)
		answer, err := p.Door.Submit(ctx, key, contract.SubmitRequest{Tenant: "many", Operation: "book_slot", Priority: admission.Normal,
			Payload: []byte(`{"amount": 1}`)})
		require.NoError(t, err)
		require.Equal(t, 2, answer.Status/100, "%+v", answer.Problem)
	}
	var samples []int
	var warm int
	for done := 0; done < tasks; {
		require.NoError(t, p.Provider.WaitFor(ctx, "hg-*", provider.Counts{Finished: done + 1}))
		counts, err := p.Provider.Effects(ctx, "hg-*")
		require.NoError(t, err)
		done = counts.Finished
		samples = append(samples, p.memory())
		if done <= 50 {
			warm = max(warm, samples[len(samples)-1])
		}
	}
	for i := range tasks {
		key := fmt.Sprintf("n%d", i)
		eventually(ctx, t, key+" has succeeded", func() bool {
			answer, err := p.Door.Task(ctx, "many", key)
			return err == nil && answer.Task.Phase == contract.PhaseSucceeded
		})
		counts, err := p.Provider.Effects(ctx, contract.ProviderKey("many", key))
		require.NoError(t, err)
		require.EqualValues(t, 1, counts.Effects, key)
		require.EqualValues(t, 1, counts.Requests, key)
	}
	concurrency, err := p.Provider.Concurrency(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, concurrency.Max, 2, "two sessions")
	most, last := 0, samples[len(samples)-1]
	for _, n := range samples {
		most = max(most, n)
	}
	t.Logf("%d tasks in %s; memory: %d MiB at most in the first 50, %d at most, %d at the end", tasks, time.Since(start).Round(time.Second), warm>>10, most>>10, last>>10)
	if tasks >= 100 {
		require.LessOrEqual(t, most, warm*5/4, "memory is flat after the first 50 tasks")
	}
}

// memory is the proportional set size, in KiB, of the worker and all that it has
// started.
func (p *pages) memory() (sum int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents := map[string]string{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); err == nil && len(fields) > 1 {
			parents[filepath.Base(filepath.Dir(file))] = fields[1]
		}
	}
	ours := strconv.Itoa(p.worker.PID())
	for pid := range parents {
		up := pid
		for up != ours && up != "" && up != "0" {
			up = parents[up]
		}
		if up != ours {
			continue
		}
		text, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		for line := range strings.SplitSeq(string(text), "\n") {
			if rest, found := strings.CutPrefix(line, "Pss:"); found {
				n, _ := strconv.Atoi(strings.Fields(rest)[0])
				sum += n
			}
		}
	}
	return sum
}
