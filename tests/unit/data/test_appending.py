"""Nothing is appended to what is no file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.data import appending
from flashinfer_bench.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_appended_to_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")

    with pytest.raises(StorageError, match="it is a named pipe, not a file"):
        appending.append({str(tmp_path / "x.jsonl"): b"{}\n" * 100_000})


def test_a_torn_line_is_not_set_aside_in_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{}\n{"a":')
    os.mkfifo(tmp_path / "x.jsonl.torn")

    with pytest.raises(StorageError, match="it is a named pipe, not a file"):
        appending.append({str(tmp_path / "x.jsonl"): b"{}\n"})

    assert (tmp_path / "x.jsonl").read_text() == '{}\n{"a":'
