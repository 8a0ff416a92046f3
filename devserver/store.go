package main

import (
	stdsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// filePragmas make acknowledged mean durable. WAL is also what makes it usable: with SQLite's rollback journal the same
// machine does a third of the work. FULL syncs each commit, so that a power failure loses nothing either; NORMAL
// (--sqlite-pragma synchronous=NORMAL) survives SIGKILL only and does about half as much again. The visibility file
// gets the same, because a list that silently misses workflows misleads an operator for ever: its rows are written
// once. busy_timeout lets a backup read while the server writes.
var filePragmas = map[string]string{
	"journal_mode": "wal",
	"synchronous":  "2",
	"busy_timeout": "5000",
}

// stores are the two databases. Visibility (lists and search) has its own: each SQLite database has one connection in
// the server, and index upkeep would stand in the way of every workflow step.
type stores struct {
	history, visibility *config.SQL
	lock                *os.File
}

// openStores creates what is missing and refuses, by name, what cannot be used.
func openStores(o options) (stores, error) {
	if o.dbFile == "" {
		return stores{history: memoryStore("history"), visibility: memoryStore("visibility")}, nil
	}
	path, err := filepath.Abs(o.dbFile)
	if err != nil {
		return stores{}, fmt.Errorf("database file %s: %w", o.dbFile, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return stores{}, fmt.Errorf("folder of database file %s: %w", path, err)
	}
	lock, err := lockFile(path)
	if err != nil {
		return stores{}, err
	}
	st := stores{
		history:    fileStore(path, o.pragmas),
		visibility: fileStore(visibilityPath(path), o.pragmas),
		lock:       lock,
	}
	for _, cfg := range []*config.SQL{st.history, st.visibility} {
		if err := createSchema(cfg); err != nil {
			st.close()
			return stores{}, err
		}
	}
	return st, nil
}

func (s stores) close() {
	if s.lock != nil {
		_ = s.lock.Close() // drops the lock; the file stays, since removing it would race with the next owner
	}
}

// visibilityPath puts the second database beside the first: temporal.db, temporal-visibility.db.
func visibilityPath(path string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-visibility" + ext
}

func memoryStore(name string) *config.SQL {
	return &config.SQL{
		PluginName:        sqlite.PluginName,
		DatabaseName:      name, // private to the process
		ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
	}
}

func fileStore(path string, pragmas map[string]string) *config.SQL {
	attributes := maps.Clone(filePragmas)
	maps.Copy(attributes, pragmas)
	attributes["mode"] = "rwc"
	return &config.SQL{
		PluginName: sqlite.PluginName,
		// The name becomes part of a URI.
		DatabaseName:      strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path),
		ConnectAttributes: attributes,
	}
}

// lockFile makes sure that one server at a time uses the database: two would both own the only shard. The kernel drops
// the lock with the process, however it ends. It is a file of its own, because closing any descriptor of a SQLite file
// drops SQLite's own locks on it.
func lockFile(path string) (*os.File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("database file %s: cannot lock: %w", path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("database file %s: another server is using it", path)
		}
		return nil, fmt.Errorf("database file %s: cannot lock: %w", path, err)
	}
	return lock, nil
}

// createSchema creates the tables in one transaction, so that a kill leaves either all of them or none. It begins with
// a write in any case: a file that cannot be written or is no database is refused here and not by the first workflow.
func createSchema(cfg *config.SQL) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("database file %s: %w", cfg.DatabaseName, err)
		}
	}()
	db, err := stdsql.Open("sqlite", "file:"+cfg.DatabaseName+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()                          // a no-op after Commit
	if _, err := tx.Exec("PRAGMA user_version = 1"); err != nil { // the write; nothing reads it
		return err
	}
	var tables int
	if err := tx.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'namespaces'").Scan(&tables); err != nil {
		return err
	}
	if tables > 0 {
		return tx.Commit()
	}
	if err := sqliteschema.SetupSchemaOnDB(schemaTx{tx: tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// schemaTx is the one method of an AdminDB that creating the schema needs.
type schemaTx struct {
	sqlplugin.AdminDB
	tx *stdsql.Tx
}

func (s schemaTx) Exec(statement string, args ...any) error {
	_, err := s.tx.Exec(statement, args...)
	return err
}
