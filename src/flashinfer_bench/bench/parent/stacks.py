"""Where a process hung: the Python stack it printed, as a person reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.compile.cache import named_as_written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.data import Solution

_OUR_FILES = str(Path(__file__).parents[2])
_FRAME = re.compile(
    r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE
)
_MOST_FRAMES = 20


def where_it_was(stack: str, sources: Mapping[str, str]) -> str:
    """Say where a process was, from what `faulthandler` printed; nothing where it printed no stack.

    `sources`: the files whose lines are shown, by their names in the stack.

    The frames of the harness are left out, and what they were called from. The newest frame is last,
    as in a traceback.
    """
    frames = list(_FRAME.finditer(stack))
    if not frames:
        return ""
    own = list(_own_frames(frames))
    if not own:
        return "\nit was in compiled code, which no Python stack shows\n"
    lines = [_shown(frame, sources) for frame in reversed(own[:_MOST_FRAMES])]
    return "\n".join(("\nit was here (the last call is the last line):", *lines, ""))


def _own_frames(frames: list[re.Match[str]]) -> Iterator[re.Match[str]]:
    for frame in frames:
        if frame["file"].startswith(_OUR_FILES):
            return
        if not frame["file"].startswith("<frozen"):
            yield frame


def sources_of(solution: Solution) -> dict[str, str]:
    """Give the files of a solution, as `where_it_was` wants them."""
    return {source.path: source.content for source in solution.sources}


def _shown(frame: re.Match[str], sources: Mapping[str, str]) -> str:
    """Write a frame as a traceback does, with the line where it is one of the sources."""
    name = named_as_written(frame["file"])
    shown = f'  File "{name}", line {frame["line"]}, in {frame["function"]}'
    number = int(frame["line"])
    line = "".join(sources.get(name, "").splitlines()[number - 1 : number]).strip()
    return f"{shown}\n    {line}" if line else shown
