"""Verdicts on disk, so that equal content is judged once by all processes that share a folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sqlite3
import time
from typing import TYPE_CHECKING

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from flashinfer_bench.errors import StorageError
from flashinfer_bench.rl.verdicts import KernelVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_log = logging.getLogger(__name__)
_VERDICT = TypeAdapter(KernelVerdict)
_WAIT_S = 30.0
MOST_VERDICTS = 100_000
"""The oldest go first; about 2 kB each."""


class VerdictLedger:
    """A folder of verdicts by key; what cannot be read or written is judged again, and never lost to its asker."""

    def __init__(self, folder: Path, *, most: int = MOST_VERDICTS) -> None:
        self._folder = folder
        self._most = most

    def find(self, keys: Iterable[str]) -> dict[str, KernelVerdict]:
        """Read the verdicts that are there."""
        try:
            with self._opened() as database:
                rows = [
                    database.execute("SELECT key, verdict FROM verdicts WHERE key = ?", (key,))
                    for key in keys
                ]
                return {key: _VERDICT.validate_json(text) for each in rows for key, text in each}
        except (sqlite3.Error, ValidationError) as error:
            _log.warning(
                "%s is not read, and its kernels are judged again: %s", self._folder, error
            )
            return {}

    def keep(self, verdicts: Mapping[str, KernelVerdict]) -> None:
        """Write verdicts, and let the oldest go beyond the bound."""
        now_s = time.time()
        rows = [(key, _VERDICT.dump_json(each).decode(), now_s) for key, each in verdicts.items()]
        try:
            with self._opened() as database, database:
                database.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", rows)
                database.execute(
                    "DELETE FROM verdicts WHERE key NOT IN"
                    " (SELECT key FROM verdicts ORDER BY kept_at DESC, rowid DESC LIMIT ?)",
                    (self._most,),
                )
        except sqlite3.Error as error:
            _log.warning("%s does not keep the verdict: %s", self._folder, error)

    @contextlib.contextmanager
    def holding(self, keys: Iterable[str]) -> Iterator[None]:
        """Let no other process judge these until the end; it waits, and finds the verdict.

        Raises `StorageError` where the folder cannot be written.
        """
        with contextlib.ExitStack() as held:
            for bucket in sorted(
                {key[:2] for key in keys}
            ):  # in one order: no two wait for each other
                try:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    held.enter_context(FileLock(self._folder / f"{bucket}.lock"))
                except OSError as error:
                    raise StorageError(f"{self._folder} cannot hold verdicts: {error}") from error
            yield

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._folder / "verdicts.sqlite", timeout=_WAIT_S)
        with contextlib.closing(database):
            database.execute(
                "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdict TEXT, kept_at REAL)"
            )
            yield database


def verdict_key(*parts: object) -> str:
    """Name what a verdict hangs on: content, workloads, settings, device, version.

    >>> verdict_key("a", 1) == verdict_key("a", 1) != verdict_key("a", 2)
    True
    """
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
