"""Who waits for a device learns who holds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashinfer_bench.bench.parent import holders
from flashinfer_bench.bench.parent.holders import Holder, ourselves, read_holder, write_holder
from flashinfer_bench.data import settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "lock_folder", lambda: tmp_path)
    return tmp_path


def test_a_note_says_which_process_holds_the_device_and_since_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/flashinfer-bench", "run", "--label", "two words"])

    write_holder("cpu", Holder(1, 5.0, "an older and longer note that is written over"))
    write_holder("cpu", ourselves(9.0))

    assert read_holder("cpu") == Holder(
        os.getpid(), 9.0, "flashinfer-bench run --label 'two words'"
    )


def test_a_note_of_a_process_that_is_gone_says_nothing() -> None:
    write_holder("cpu", Holder(2**30, 5.0, "gone"))

    assert read_holder("cpu") is None


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"pid": "x"}'])
def test_a_note_that_cannot_be_read_says_nothing(folder: Path, content: bytes) -> None:
    (folder / "cpu.holder").write_bytes(content)

    assert read_holder("cpu") is None


def test_no_note_is_written_through_a_link(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.write_text("mine")
    (folder / "cpu.holder").symlink_to(elsewhere)

    write_holder("cpu", ourselves(9.0))

    assert elsewhere.read_text() == "mine"
    assert holders.holder_text(None) == ""
