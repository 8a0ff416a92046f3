package playwright

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// folder is the temporary folder of one engine. Everything that the engine starts
// has it as TMPDIR, so that files and processes can be found whoever dies. The
// lock in it ends with this process, and tells others that the folder is in use.
type folder struct {
	path string
	lock *os.File
}

const lockName = "lock"

// maxPath bounds the folder's path: Chromium puts a socket below it, and the
// path of a socket has at most 107 bytes.
const maxPath = 65

func newFolder(parent string) (*folder, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("temporary folder of browsers: %w", err)
	}
	path, err := os.MkdirTemp(parent, fmt.Sprintf("%d-", os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("temporary folder of a browser: %w", err)
	}
	if len(path) > maxPath {
		_ = os.Remove(path)
		return nil, fmt.Errorf("the temporary folder of a browser, %s, has more than %d bytes: choose a shorter one", path, maxPath)
	}
	lock, err := hold(filepath.Join(path, lockName))
	if err != nil {
		return nil, fmt.Errorf("lock the temporary folder of a browser: %w", err)
	}
	return &folder{path, lock}, nil
}

// hold takes a lock that no living process has.
func hold(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// remove kills what still runs, then deletes. What is just dying may still write:
// it is done again until all is gone.
func (f *folder) remove() {
	for range 100 {
		killAll(f.path)
		_ = os.RemoveAll(f.path)
		if _, err := os.Stat(f.path); os.IsNotExist(err) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = f.lock.Close()
}

// sweepTemp removes the folders whose worker is dead, with what still runs in
// them, and counts them.
func sweepTemp(parent string) (removed int) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		if info, err := entry.Info(); err != nil || !entry.IsDir() || time.Since(info.ModTime()) < time.Second {
			continue // it may be about to get its lock
		}
		lock, err := hold(filepath.Join(path, lockName))
		if err != nil {
			continue
		}
		(&folder{path, lock}).remove()
		removed++
	}
	return removed
}

// sweepOld removes the folders that were last written before a time.
func sweepOld(parent string, before time.Time) (removed int) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && entry.IsDir() && info.ModTime().Before(before) {
			if os.RemoveAll(filepath.Join(parent, entry.Name())) == nil {
				removed++
			}
		}
	}
	return removed
}

// killAll kills every process that was started with the folder as TMPDIR, until
// there is none: one that is being killed may still start another.
func killAll(path string) {
	for range 50 {
		all := processes(path)
		if len(all) == 0 {
			return
		}
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond) // for the kernel to take them away
	}
}

// processes are those that were started with the folder as TMPDIR, and their
// descendants: Chromium's children write their titles over their environment. Dead
// ones that nobody has waited for are left out. Where there is no /proc it finds
// none.
func processes(path string) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	want := []byte("\x00TMPDIR=" + path + "\x00")
	parent, ours := map[int]int{}, map[int]bool{}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		stat, failed := os.ReadFile(filepath.Join(folder, "stat"))
		// "pid (name) state parent ...", where the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if err != nil || failed != nil || len(fields) < 2 || string(fields[0]) == "Z" || pid == os.Getpid() {
			continue
		}
		parent[pid], _ = strconv.Atoi(string(fields[1]))
		env, _ := os.ReadFile(filepath.Join(folder, "environ"))
		ours[pid] = bytes.Contains(append([]byte{0}, env...), want)
	}
	for pid := range parent {
		for up := pid; up != 0; up = parent[up] {
			if ours[up] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}
