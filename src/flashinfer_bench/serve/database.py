"""Where the service's tables are: in SQLite, in a file or in memory; `postgres` knows the other place.

Statements are of the SQL that both share, with values as `:name`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flashinfer_bench.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

Row = dict[str, Any]
VERSION = 2
"""Of the tables; a store of a newer one is refused, one of an older is brought up to date."""

_TABLES = """
CREATE TABLE tenants (
    name TEXT PRIMARY KEY,
    most_queued BIGINT NOT NULL,
    most_per_minute BIGINT NOT NULL,
    device_seconds_per_day DOUBLE PRECISION NOT NULL,
    served BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL REFERENCES tenants (name),
    scopes TEXT NOT NULL,
    created_s DOUBLE PRECISION NOT NULL,
    revoked_s DOUBLE PRECISION
);
CREATE TABLE devices (
    name TEXT PRIMARY KEY,
    strikes BIGINT NOT NULL DEFAULT 0,
    quarantined TEXT
);
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    device TEXT NOT NULL REFERENCES devices (name),
    capability TEXT NOT NULL,
    seen_s DOUBLE PRECISION NOT NULL,
    left_s DOUBLE PRECISION,
    key TEXT NOT NULL DEFAULT ''
);
CREATE INDEX workers_by_device ON workers (device);
CREATE TABLE solutions (
    name TEXT PRIMARY KEY,
    hash TEXT NOT NULL,
    author TEXT NOT NULL
);
CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    number BIGINT NOT NULL UNIQUE,
    tenant TEXT NOT NULL REFERENCES tenants (name),
    state TEXT NOT NULL,
    outcome TEXT,
    error TEXT,
    definition TEXT NOT NULL,
    solution TEXT NOT NULL,
    document TEXT NOT NULL,
    workloads TEXT NOT NULL,
    hardware TEXT NOT NULL,
    fresh BIGINT NOT NULL,
    idempotency_key TEXT,
    request_hash TEXT NOT NULL,
    created_s DOUBLE PRECISION NOT NULL,
    ended_s DOUBLE PRECISION
);
CREATE UNIQUE INDEX tasks_by_key ON tasks (tenant, idempotency_key);
CREATE INDEX tasks_by_tenant ON tasks (tenant, number);
CREATE INDEX tasks_by_time ON tasks (tenant, created_s);
CREATE INDEX tasks_by_state ON tasks (state, tenant);
CREATE TABLE batches (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL REFERENCES tasks (id),
    number BIGINT NOT NULL,
    tenant TEXT NOT NULL,
    hardware TEXT,
    requirement TEXT NOT NULL,
    state TEXT NOT NULL,
    tries BIGINT NOT NULL DEFAULT 0,
    begun BIGINT NOT NULL DEFAULT 0,
    lease TEXT UNIQUE,
    worker TEXT,
    device TEXT,
    leased_s DOUBLE PRECISION,
    expires_s DOUBLE PRECISION,
    device_s DOUBLE PRECISION NOT NULL DEFAULT 0,
    ended_s DOUBLE PRECISION
);
CREATE INDEX batches_by_task ON batches (task);
CREATE INDEX batches_by_state ON batches (state, requirement);
CREATE INDEX batches_by_use ON batches (tenant, ended_s);
CREATE TABLE results (
    batch TEXT NOT NULL REFERENCES batches (id),
    workload TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id),
    place BIGINT NOT NULL,
    hardware TEXT NOT NULL,
    trace TEXT,
    reason TEXT,
    samples TEXT,
    cache_key TEXT,
    is_cached BIGINT NOT NULL,
    is_recorded BIGINT NOT NULL,
    stored_s DOUBLE PRECISION NOT NULL,
    signature TEXT,
    PRIMARY KEY (batch, workload)
);
CREATE INDEX results_by_task ON results (task);
CREATE INDEX results_by_cache_key ON results (cache_key);
CREATE INDEX results_by_recorded ON results (is_recorded);
CREATE TABLE events (
    task TEXT NOT NULL REFERENCES tasks (id),
    number BIGINT NOT NULL,
    time_s DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (task, number)
);
CREATE TABLE versions (version BIGINT PRIMARY KEY);
"""
_CONTESTS = """
CREATE TABLE reviews (
    task TEXT PRIMARY KEY REFERENCES tasks (id),
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    reviewed_s DOUBLE PRECISION NOT NULL
);
CREATE TABLE closings (closed_s DOUBLE PRECISION NOT NULL);
"""
_STEPS = {
    2: f"""
ALTER TABLE workers ADD COLUMN key TEXT NOT NULL DEFAULT '';
ALTER TABLE results ADD COLUMN signature TEXT;
{_CONTESTS}""",
}
"""What brings tables to a version from the one before."""


class Statements:
    """What is said inside one transaction; `execute` runs a statement with its values."""

    def __init__(self, execute: Callable[[str, dict[str, Any]], Any]) -> None:
        self._execute = execute

    def rows(self, statement: str, **values: Any) -> list[Row]:
        """Give all rows."""
        cursor = self._execute(statement, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def row(self, statement: str, **values: Any) -> Row | None:
        """Give the first row; None where there is none."""
        return next(iter(self.rows(statement, **values)), None)

    def value(self, statement: str, **values: Any) -> Any:
        """Give the first value of the first row; None where there is none."""
        found = self.row(statement, **values)
        return None if found is None else next(iter(found.values()))

    def change(self, statement: str, **values: Any) -> int:
        """Change rows; give how many."""
        return int(self._execute(statement, values).rowcount)


class Database(Protocol):
    """Transactions, one after another; any thread may ask."""

    def transaction(self) -> AbstractContextManager[Statements]:
        """Do all that is said in the block, durably, or nothing of it."""
        ...

    def reading(self) -> AbstractContextManager[Statements]:
        """Look at one moment's state."""
        ...

    def only_server(self) -> AbstractContextManager[None]:
        """Be the one server of these tables; `UsageError` where there is another."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class SqliteDatabase:
    """One SQLite file. Any thread may ask; transactions come one after another, and are on disk when they end."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._connection = self._opened(path)
            with self.transaction() as say:
                bring_up_to_date(say, str(path), _HAS_TABLES)
        except sqlite3.Error as error:
            raise StorageError(f"{path or 'the store'}: {error}") from error

    @staticmethod
    def _opened(path: Path | None) -> sqlite3.Connection:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Statements]:
        """Do all that is said in the block, or nothing of it."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield Statements(self._connection.execute)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def reading(self) -> Iterator[Statements]:
        """Look at one moment's state; nothing is written, nobody waits for a disk."""
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                yield Statements(self._connection.execute)
            finally:
                self._connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def only_server(self) -> Iterator[None]:
        """Be the one server of this file; `UsageError` where there is another."""
        if self._path is None:
            yield
            return
        descriptor = os.open(f"{self._path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise another_server(str(self._path)) from None
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close it."""
        with self._lock:
            self._connection.close()


_HAS_TABLES = "SELECT count(*) FROM sqlite_master WHERE name = 'versions'"


def bring_up_to_date(say: Statements, store: str, has_tables: str) -> None:
    """Make the tables, or change older ones step by step."""
    if not say.value(has_tables):
        _change_all(say, _TABLES + _CONTESTS)
        say.change("INSERT INTO versions VALUES (:version)", version=VERSION)
    found = say.value("SELECT max(version) FROM versions")
    for version in range(found + 1, VERSION + 1):
        _change_all(say, _STEPS[version])
        say.change("INSERT INTO versions VALUES (:version)", version=version)
    if found > VERSION:
        raise UsageError(
            f"{store} was written by a newer flashinfer-bench (tables {found}, this one knows {VERSION}): update it"
        )


def _change_all(say: Statements, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";")):
        say.change(statement)


def another_server(store: str) -> UsageError:
    """Say that a store has a server."""
    return UsageError(
        f"another server runs on {store}: submit to that one, or name another --store"
    )


def open_store(store: str) -> Database:
    """Open a file, or what a `postgresql://` address names."""
    if not store.startswith(("postgresql://", "postgres://")):
        return SqliteDatabase(Path(store))
    from flashinfer_bench.serve.postgres import PostgresDatabase  # noqa: PLC0415  # an extra

    return PostgresDatabase(store)
