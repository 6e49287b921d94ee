from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.bench.channel import Channel, pair
from flashinfer_bench.bench.parent.launcher import Log, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEPT_BYTES = 64 << 10


@pytest.fixture
def pipe() -> Iterator[tuple[Log, Callable[[bytes], None]]]:
    """A log, and what writes into it and drains it."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    log = Log(reader)

    def say(data: bytes) -> None:
        for start in range(0, len(data), 4096):
            os.write(writer, data[start : start + 4096])
            log.drain()

    yield log, say
    os.close(reader)
    os.close(writer)


def test_what_is_said_is_kept(pipe) -> None:
    log, say = pipe

    say(b"first\n")
    say(b"second\n")

    assert log.take() == "first\nsecond\n"


def test_taking_a_log_starts_it_anew(pipe) -> None:
    log, say = pipe
    say(b"first\n")

    log.take()
    say(b"second\n")

    assert log.take() == "second\n"
    assert log.take() == ""


def test_of_too_much_both_ends_survive_and_the_loss_is_counted(pipe) -> None:
    log, say = pipe

    say(b"begin" + b"x" * (3 * KEPT_BYTES) + b"end")
    text = log.take()

    assert text.startswith("beginxxx")
    assert text.endswith("xxxend")
    assert f"[… {2 * KEPT_BYTES + 8} bytes left out …]" in text
    assert len(text) < KEPT_BYTES + 100


@pytest.mark.parametrize("shift", [0, 1])
def test_a_log_that_fits_is_whole_whatever_its_characters(pipe, shift: int) -> None:
    log, say = pipe
    text = "." * shift + "é" * 30_000

    say(text.encode())

    assert log.take() == text


def test_bytes_that_are_no_text_are_replaced(pipe) -> None:
    log, say = pipe

    say(b"\xff\xfe ok")

    assert log.take() == "\ufffd\ufffd ok"


def test_draining_tells_of_the_end() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    log = Log(reader)

    before = log.drain()
    os.close(writer)
    after = log.drain()
    os.close(reader)

    assert (before, after) == (True, False)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "its process runs"),
        (0, "its process exited with code 0"),
        (3 << 8, "its process exited with code 3"),
        (signal.SIGSEGV, "its process was ended by SIGSEGV"),
        (signal.SIGKILL, "its process was ended by SIGKILL (perhaps out of memory)"),
        (40, "its process was ended by signal 40"),
    ],
)
def test_how_a_process_ended_is_said_in_words(status: int | None, words: str) -> None:
    ours, theirs = pair()

    worker = Worker(1, "candidate", Log(-1), Path(), Channel(ours, int), status)
    worker.channel.close()
    theirs.close()

    assert worker.ending == words
