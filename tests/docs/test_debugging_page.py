"""docs/debugging.md, followed by a user: each command ends as the page says, and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "debugging.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
LEFT_OUT = "…"


def shape(line: str) -> str:
    """Leave out of a line what differs from run to run: numbers, widths, the lengths of bars."""
    return re.sub(r"-?\d[\d.]*(e[+-]?\d+)?|#+", "0", " ".join(line.split()))


def shows(output: str, shown: str) -> bool:
    """Whether the lines that a page shows occur in an output, in their order."""
    lines = iter([shape(line) for line in output.splitlines()])
    wanted = [shape(line) for line in shown.splitlines() if line.strip() not in {"", LEFT_OUT}]
    return all(any(line == found for found in lines) for line in wanted)


@pytest.mark.full  # its commands one by one: test_command_line, test_tools
def test_every_step_of_the_page_ends_and_prints_as_it_says(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the page runs solutions")
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = []

    for (language, info, content), following in pairwise([*BLOCKS, ("", "", "")]):
        if "file=" in info:
            (tmp_path / info.partition("file=")[2]).write_text(content)
        elif language == "bash":
            done = subprocess.run(
                ["bash", "-ec", content],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            run.append(content)
            assert done.returncode == int(info.partition("exit=")[2] or 0), (
                done.stdout + done.stderr
            )
            if following[0] == "text":
                assert shows(done.stdout, following[2]), done.stdout

    assert len(run) == 7


def test_a_line_that_was_not_printed_is_not_shown() -> None:
    assert shows("a 1\nb 2\nc 3\n", "a 7\n…\nc 0\n")
    assert not shows("a 1\nb 2\n", "b 1\na 2\n")
    assert not shows("a 1\n", "d\n")
