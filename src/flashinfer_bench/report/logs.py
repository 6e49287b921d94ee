"""The log of a failed job on a page: the line that says what is wrong, and as much as leads to the fix."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import first_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MOST_LINES = 30
_END_CHARACTERS = 4_000
_MOST_TELLING = 10
_TRACEBACK = "Traceback (most recent call last):"
_GROUP_MARGIN = re.compile(r"^  (?:\| ?|\+ Exception Group (?=Traceback ))", re.MULTILINE)
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]*)", line \d+,? in (?P<function>.*)')
_OTHERS_FILES = re.compile(
    r"/flashinfer_bench/|^<frozen |/(?:runpy|importlib/__init__)\.py$"
    r"|^(?:\.{1,2}/)*(?:Objects|Python|Modules|Include|sysdeps|nptl|signal|csu)/"
)
"""Of the harness, the interpreter and the C library; a build of Python names its C files without a root."""
_LIBRARIES_TOO = re.compile(rf"{_OTHERS_FILES.pattern}|/(?:site|dist)-packages/|/lib/python3\.\d+/")
_NO_FUNCTION = re.compile(r"0x[0-9a-f]+$|_start$|__libc_start|__tvm_ffi_|_Py|Py[A-Z]")
_NOISE = re.compile(
    r"^Extension modules: |^\d{4}-\d\d-\d\d .*\b(?:INFO\b|CRITICAL\].*Failed to build prim_func)"
    r"|^(?:Current t|T)hread 0x"
)
_GOES_ON = re.compile(r"$|    |(?:args|source)=")
"""What stands below a line that is left out: code below its frame, what TileLang made of a kernel."""
_TELLING = re.compile(
    r"^[\w.]*(?:Error|Exception|Exit|Interrupt)\b|: (?:fatal )?error:|^\s*error: |required from here|:\d+: undefined "
)


def headline(log: str, *, limit: int = 120) -> str:
    r"""Give the line that says what is wrong, cut to a length: of a traceback the exception, else the first one.

    >>> headline('Traceback (most recent call last):\n  File "k.py", line 2, in run\nValueError: bad size\n')
    'ValueError: bad size'
    >>> headline('it failed:\nTraceback (most recent call last):\n  File "k.py", line 2, in run\nValueError: bad\n')
    'it failed: ValueError: bad'
    """
    plain = without_group_margin(log)
    opening, _, trace = plain.partition(_TRACEBACK)
    opening = opening.strip()
    raised = "" if "\n" in opening else _raised(trace)
    if not raised or raised in opening:
        return first_line(plain, limit=limit)
    return first_line(f"{opening.rstrip(':')}: {raised}" if opening else raised, limit=limit)


def _raised(trace: str) -> str:
    """Give the last exception of a traceback; nothing where there is none."""
    raised = [
        line
        for before, line in itertools.pairwise(trace.splitlines())
        if before.startswith("  ") and line and not line.startswith(" ")
    ]
    return raised[-1] if raised else ""


def without_group_margin(log: str) -> str:
    """Write the traceback of a group of exceptions as that of any other; those it holds stay indented."""
    return _GROUP_MARGIN.sub("", log) if "  + Exception Group Traceback" in log else log


def is_users_file(file: str) -> bool:
    """Tell whether a file of a traceback is neither the harness's, the interpreter's nor a library's."""
    return _LIBRARIES_TOO.search(file) is None


def log_lines(log: str, *, whole: str | None = None) -> list[str]:
    """Cut a log to a page; `whole` is where all of it is, and is named where something was left out.

    Frames of the harness and of the interpreter go first, those of libraries where the rest is too long.
    Of what is longer still, the user's frames and lines that name an error stay, and both ends.
    """
    lines = [_kept_indent(line) for line in log.splitlines()] or ["(no log)"]
    kept = list(_worth_reading(lines, _OTHERS_FILES))
    if len(kept) > _MOST_LINES:
        kept = list(_worth_reading(lines, _LIBRARIES_TOO))
    if len(kept) > _MOST_LINES:
        kept = _telling_and_ends(lines, kept)
    shown = list(_with_gaps(lines, kept))
    if whole is not None and len(kept) < len(lines):
        shown += ["", f"all {len(lines)} lines: {whole}"]
    return shown


def log_excerpt(log: str, *, whole: str | None) -> str:
    """Cut a log for a document to its two ends; `whole` is where all of it is."""
    surplus = len(log) - 2 * _END_CHARACTERS
    if surplus <= 0:
        return log
    place = f"; the whole log: {whole}" if whole else ""
    cut = f"\n[… {surplus} characters left out{place} …]\n"
    return log[:_END_CHARACTERS] + cut + log[-_END_CHARACTERS:]


def _worth_reading(lines: Sequence[str], others: re.Pattern[str]) -> Iterator[int]:
    """Number the lines that are neither noise nor frames of `others`, nor blank beside these."""
    is_others = False
    for number, line in enumerate(lines):
        frame = _FRAME.match(line)
        if frame is not None:
            is_others = _is_others(frame, others)
        elif not (is_others and _GOES_ON.match(line)):
            is_others = _NOISE.match(line) is not None
        if not is_others:
            yield number


def _is_others(frame: re.Match[str], others: re.Pattern[str]) -> bool:
    if others.search(frame["file"]):
        return True
    return frame["file"] == "<unknown>" and _NO_FUNCTION.match(frame["function"]) is not None


def _telling_and_ends(lines: Sequence[str], kept: Sequence[int]) -> list[int]:
    """Choose a page of lines: those that name an error, then as many of both ends."""
    telling = [n for n in kept if _TELLING.search(lines[n]) or _FRAME.match(lines[n])]
    chosen = set(telling[: _MOST_TELLING // 2] + telling[-_MOST_TELLING // 2 :])
    others = [number for number in kept if number not in chosen]
    room = _MOST_LINES - len(chosen)
    return sorted(chosen.union(others[: room - room // 2], others[len(others) - room // 2 :]))


def _with_gaps(lines: Sequence[str], kept: Iterable[int]) -> Iterator[str]:
    """Give the lines that are kept, and say how many are missing where some are."""
    following = 0
    for number in (*kept, len(lines)):
        if number > following:
            yield f"... {count_text(number - following, 'line')} left out ..."
        if number < len(lines):
            yield lines[number]
        following = number + 1


def _kept_indent(line: str) -> str:
    """Clean a line, keeping the indentation that code and tables need."""
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + printable(line.strip())
