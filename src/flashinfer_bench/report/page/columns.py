"""Tables of a page without the columns that say nothing."""

from __future__ import annotations

import re

from flashinfer_bench.text.numbers import NOTHING

_TABLE = re.compile(r'<table class="data".*?</table>', re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(t[hd])\b.*?</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_CHOICES = re.compile(r'data-choices="([\d ]+)"')


def without_empty_columns(page: str) -> str:
    """Leave out columns of data tables in which no row says anything.

    >>> without_empty_columns('<table class="data"><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>-</td></tr></table>')
    '<table class="data"><tr><th>a</th></tr><tr><td>1</td></tr></table>'
    """
    return _TABLE.sub(lambda found: _filled(found[0]), page)


def _filled(table: str) -> str:
    rows = [list(_CELL.finditer(row)) for row in _ROW.findall(table)]
    body = [row for row in rows if any(cell[1] == "td" for cell in row)]
    width = min(map(len, rows), default=0)
    empty = {
        index
        for index in range(width)
        if body and not any(_says_something(row[index][0]) for row in body)
    }
    if not empty:
        return table
    shorter = _ROW.sub(lambda row: _without(row[0], empty), table)
    return _CHOICES.sub(lambda found: _moved(found[1], empty), shorter)


def _says_something(cell: str) -> bool:
    return "<svg" in cell or _TAG.sub("", cell).strip() not in {"", NOTHING}


def _without(row: str, empty: set[int]) -> str:
    number = -1

    def kept(found: re.Match[str]) -> str:
        nonlocal number
        number += 1
        return "" if number in empty else found[0]

    return _CELL.sub(kept, row)


def _moved(choices: str, empty: set[int]) -> str:
    """Write the columns that a choice is offered for as they are counted now."""
    kept = [int(each) for each in choices.split() if int(each) not in empty]
    moved = [each - sum(other < each for other in empty) for each in kept]
    return f'data-choices="{" ".join(map(str, moved))}"'
