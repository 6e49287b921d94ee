"""The log of a failed job on a page: the line that says what is wrong, and as much as leads to the fix."""

from __future__ import annotations

import itertools

from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import first_line, printable

_MOST_LINES = 30
_TRACEBACK = "Traceback (most recent call last):"


def headline(log: str) -> str:
    r"""Give the line that says what is wrong: of a traceback the exception, else the first one.

    >>> headline('Traceback (most recent call last):\n  File "k.py", line 2, in run\nValueError: bad size\n')
    'ValueError: bad size'
    """
    first = first_line(log)
    if first != _TRACEBACK:
        return first
    lines = log.splitlines()
    raised = [
        line
        for before, line in itertools.pairwise(lines)
        if before.startswith("  ") and line and not line.startswith(" ")
    ]
    return first_line(raised[-1]) if raised else first


def log_lines(log: str) -> list[str]:
    """Cut a log to a page, keeping both ends."""
    lines = [_kept_indent(line) for line in log.splitlines()] or ["(no log)"]
    if len(lines) <= _MOST_LINES:
        return lines
    half = _MOST_LINES // 2
    left_out = count_text(len(lines) - 2 * half, "line")
    return [*lines[:half], f"... {left_out} left out ...", *lines[-half:]]


def _kept_indent(line: str) -> str:
    """Clean a line, keeping the indentation that code and tables need."""
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + printable(line.strip())
