"""Text in columns, and the pages that commands show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP = "  "
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page; a terminal may draw headings stronger."""

    text: str
    kind: Literal["heading", "text"] = "text"


Page = tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column, and whether it holds numbers."""

    head: str
    is_number: bool = False


def heading(text: str) -> Block:
    """Make a heading."""
    return Block(text, "heading")


def paragraph(*lines: str) -> Block:
    """Make a block of indented lines."""
    return Block("\n".join(_INDENT + line if line else "" for line in lines))


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Block:
    """Lay cells out in columns; a column without any content is left out."""
    cells = [[printable(cell) for cell in row] for row in rows]
    kept = [index for index in range(len(columns)) if any(row[index] for row in cells)]
    lines = [[columns[index].head for index in kept]]
    lines += [[row[index] for index in kept] for row in cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    are_numbers = [columns[index].is_number for index in kept]
    return paragraph(*(_line(line, widths, are_numbers) for line in lines))


def page_text(page: Page) -> str:
    r"""Join blocks, a blank line before each heading but the first.

    >>> page_text((heading("one"), paragraph("a"), heading("two")))
    'one\n  a\n\ntwo'
    """
    parts = [block.text if block.kind == "text" else f"\n{block.text}" for block in page]
    return "\n".join(parts).removeprefix("\n")


def printable(text: str) -> str:
    r"""Take out what would move the cursor, change colours or the direction of writing.

    Names and logs come from other people's files and kernels.

    >>> printable("\x1b[31mred\x1b[0m\a")
    'red'
    """
    if text.isprintable():
        return text
    spaced = " ".join(_TERMINAL_SEQUENCE.sub("", text).split())
    return "".join(character for character in spaced if character.isprintable())


def first_line(text: str, *, limit: int = 120) -> str:
    r"""Give the first line that says something, cut to a length.

    >>> first_line("\n  boom\nat line 3")
    'boom'
    """
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = printable(line)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _line(cells: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool]) -> str:
    return _GAP.join(
        cell.rjust(width) if is_number else cell.ljust(width)
        for cell, width, is_number in zip(cells, widths, are_numbers, strict=True)
    ).rstrip()
