"""A PostgreSQL of one's own, where it is installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def own_postgres() -> Iterator[str]:
    """A server on a socket in a folder of its own; its address."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="fib-pg-"))
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    data, control = folder / "data", ["pg_ctl", "-D", str(folder / "data"), "-w"]

    def run(*command: str) -> None:
        subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

    run("initdb", "-D", str(data), "--no-sync", "-A", "trust", "-U", "fib", "-E", "UTF8")
    run(*control, "-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses=''", "start")
    try:
        yield f"postgresql://fib@/postgres?host={folder}"
    finally:
        run(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def emptied(address: str) -> str:
    """The same, without tables of an earlier test."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return address
