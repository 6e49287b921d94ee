"""The real command on a terminal of its own, and on streams that cannot say everything."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.marks import mostly_full

DATASET = Path(__file__).parents[1] / "golden" / "dataset"
COMMAND = (sys.executable, "-c", "from flashinfer_bench.cli.main import cli; cli()")


def arguments(*words: str) -> list[str]:
    return [*COMMAND, "report", *words, "--local", str(DATASET)]


def on_terminal(*words: str, columns: int = 80, **variables: str) -> str:
    """Say what a command wrote to a terminal so many columns wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: each for name, each in os.environ.items() if name != "COLUMNS"} | variables
    process = subprocess.Popen(
        arguments(*words), stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    parts = []
    with contextlib.suppress(OSError):  # a terminal without anybody at it ends with an error
        while part := os.read(ours, 65536):
            parts.append(part)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def piped(*words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        arguments(*words), capture_output=True, env=os.environ | variables, check=False
    )


@pytest.mark.parametrize("columns", mostly_full([60, 80, 120], 60))
@pytest.mark.parametrize(
    "words", [("summary",), ("best",), ("visualize",)], ids=lambda each: each[0]
)
def test_a_page_is_no_wider_than_the_terminal(words: tuple[str, ...], columns: int) -> None:
    text = on_terminal(*words, columns=columns, NO_COLOR="1")

    assert max(map(len, text.splitlines())) <= columns


def test_headings_are_bold_where_colours_are_not_refused() -> None:
    assert "\x1b[1mLeft out\x1b[0m" in on_terminal("summary", NO_COLOR="")
    assert "\x1b" not in on_terminal("summary", NO_COLOR="1")


def test_the_c_locale_gets_ascii() -> None:
    assert on_terminal("visualize", LC_ALL="C").isascii()
    assert not on_terminal("visualize", LC_ALL="C.UTF-8").isascii()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_written_in_others(encoding: str) -> None:
    said = piped("visualize", PYTHONIOENCODING=encoding)

    assert (said.returncode, said.stderr) == (0, b"")
    assert b"100 us" in said.stdout


def test_json_is_json_in_any_encoding(tmp_path: Path) -> None:
    said = piped("visualize", "--json", PYTHONIOENCODING="ascii")

    assert json.loads(said.stdout)["schema_version"] == 1


@pytest.mark.parametrize(
    "words", mostly_full([["summary"], ["best", "--json"], ["visualize"]], ["summary"])
)
def test_a_reader_that_leaves_early_meets_no_traceback(words: list[str]) -> None:
    process = subprocess.Popen(
        arguments(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()

    assert process.stderr.read() == ""
