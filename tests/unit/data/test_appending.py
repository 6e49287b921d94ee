"""Nothing is appended to what is no file; an interrupt leaves no part."""

from __future__ import annotations

import errno
import os
import signal
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


class _Stopped(BaseException):
    """What a handler of this test raises."""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_all_that_belongs_together_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    def stop(*_: object) -> None:
        raise _Stopped

    def interrupted(descriptor: int) -> None:
        signal.raise_signal(sent)
        fsync(descriptor)

    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", interrupted)
    before = signal.signal(sent, stop)
    try:
        with pytest.raises(_Stopped):
            appending.append({str(tmp_path / name): b"{}\n" for name in ("a", "b")})
        assert signal.getsignal(sent) is stop
    finally:
        signal.signal(sent, before)

    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["{}\n", "{}\n"]


def test_a_fault_undoes_what_belongs_together_and_an_interrupt_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        signal.raise_signal(signal.SIGINT)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyboardInterrupt):
        appending.append({str(tmp_path / "a"): b"{}\n"})

    assert not (tmp_path / "a").exists()
