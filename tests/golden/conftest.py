"""Recorded output: compared byte for byte, rewritten with `--update-golden`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

RECORDED = Path(__file__).parent / "recorded"
Compare = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the recorded output")


@pytest.fixture
def dataset() -> Path:
    return Path(__file__).parent / "dataset"


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Compare:
    """Compare text with the file recorded under a name."""

    def compare_with_recorded(name: str, text: str) -> None:
        file = RECORDED / name
        if request.config.getoption("--update-golden", default=False):
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(text.encode())
        assert file.read_bytes().decode() == text, "if this is meant: make golden"

    return compare_with_recorded
