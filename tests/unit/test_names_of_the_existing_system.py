"""Names that users of the existing system import."""

from __future__ import annotations

from pathlib import Path

import pytest

import flashinfer_bench
from flashinfer_bench.cli import cli
from flashinfer_bench.cli.main import cli as root
from flashinfer_bench.env import get_fib_dataset_path


def test_names_stand_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_DATASET_PATH", "/somewhere")

    assert cli is root
    assert get_fib_dataset_path() == Path("/somewhere")
    assert flashinfer_bench.__version_tuple__[0] == int(flashinfer_bench.__version__.split(".")[0])
