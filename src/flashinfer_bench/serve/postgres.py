"""The service's tables in PostgreSQL."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import threading
from typing import TYPE_CHECKING, Any

from flashinfer_bench.errors import MissingPackageError, StorageError
from flashinfer_bench.serve.database import Statements, another_server, bring_up_to_date

if TYPE_CHECKING:
    from collections.abc import Iterator

_HAS_TABLES = (
    "SELECT count(*) FROM information_schema.tables"
    " WHERE table_name = 'versions' AND table_schema = current_schema()"
)
_SERVERS_LOCK = 0x666962  # any number that other programs do not take
_CREDENTIALS = re.compile(r"(?<=://)[^@/]*@")


class PostgresDatabase:
    """A database by its address. Any thread may ask; a connection that is lost is made anew."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._shown = _CREDENTIALS.sub("", address)
        self._lock = threading.Lock()
        self._is_server = False
        try:
            self._psycopg = importlib.import_module("psycopg")
        except ImportError:
            raise MissingPackageError(
                "psycopg", extra="postgres", needed_for="a store in PostgreSQL"
            ) from None
        self._connection = self._connected()
        with self.transaction() as say:
            bring_up_to_date(say, self._shown, _HAS_TABLES)

    def _connected(self) -> Any:
        try:
            connection = self._psycopg.connect(self._address, autocommit=True)
            if self._is_server:
                self._claim(connection)
        except self._psycopg.Error as error:
            raise StorageError(f"{self._shown}: {' '.join(str(error).split())}") from error
        return connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Statements]:
        """Do all that is said in the block, or nothing of it."""
        with self._lock:
            if self._connection.closed:
                self._connection = self._connected()
            with self._connection.transaction():
                yield Statements(self._execute)

    def reading(self) -> contextlib.AbstractContextManager[Statements]:
        """Look at one moment's state."""
        return self.transaction()

    def _execute(self, statement: str, values: dict[str, Any]) -> Any:
        return self._connection.execute(_translated(statement), values)

    @contextlib.contextmanager
    def only_server(self) -> Iterator[None]:
        """Be the one server of these tables; `UsageError` where there is another."""
        self._claim(self._connection)
        self._is_server = True
        yield

    def _claim(self, connection: Any) -> None:
        asked = connection.execute("SELECT pg_try_advisory_lock(%s)", [_SERVERS_LOCK])
        if not asked.fetchone()[0]:
            raise another_server(self._shown)

    def close(self) -> None:
        """Close it."""
        with self._lock:
            self._connection.close()


@functools.cache
def _translated(statement: str) -> str:
    """Write values as psycopg names them.

    >>> _translated("SELECT :name")
    'SELECT %(name)s'
    """
    return re.sub(r":(\w+)", r"%(\1)s", statement)
