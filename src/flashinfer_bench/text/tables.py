"""Text in columns, and the pages that commands show."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = TypeVar("Row")

_GAP = "  "
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_INDENT = "  "
# Controls but tab and newline, and characters that take no room or turn the direction of writing: with them a name
# or a source could read as what it is not.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_IN_ASCII = {
    "µ": "u", "×": "x", "·": "*", "…": "...", "∞": "inf", "–": "-", "—": "-", "→": "->", "±": "+-", "≥": ">=",
    "≤": "<=", "▒": "+", "█": "#", "┊": "|", "│": "|", "└": "+", "├": "+", "─": "-",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page; a terminal may draw headings stronger."""

    text: str
    kind: Literal["heading", "text"] = "text"
    cells: tuple[tuple[str, ...], ...] = ()
    """Of a table: its head, then its rows."""


Page = tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column, and whether it holds numbers."""

    head: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class RowColumn(Generic[Row]):
    """A column, and what it says of each row."""

    head: str
    text: Callable[[Row], str]
    is_number: bool = False


def heading(text: str) -> Block:
    """Make a heading."""
    return Block(printable(text), "heading")


def paragraph(*lines: str) -> Block:
    """Make a block of indented lines."""
    parts = [printable(part) for line in lines for part in line.split("\n")]
    return Block("\n".join(_INDENT + part if part else "" for part in parts))


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Block:
    """Lay cells out in columns; a column without any content is left out."""
    cells = [[printable(cell) for cell in row] for row in rows]
    kept = [index for index in range(len(columns)) if any(row[index] for row in cells)]
    lines = [[columns[index].head for index in kept]]
    lines += [[row[index] for index in kept] for row in cells]
    widths = [max(map(columns_of, column)) for column in zip(*lines, strict=True)]
    are_numbers = [columns[index].is_number for index in kept]
    drawn = paragraph(*(_line(line, widths, are_numbers) for line in lines))
    return replace(drawn, cells=tuple(map(tuple, lines)))


def rows_table(columns: Sequence[RowColumn[Row]], rows: Iterable[Row]) -> Block:
    """Lay rows out by columns that know what they say."""
    return table(
        [Column(each.head, each.is_number) for each in columns],
        ([each.text(row) for each in columns] for row in rows),
    )


def fitted(page: Page, width: int) -> Page:
    """Make a page fit: a table that is too wide becomes a list of its rows, and long lines are wrapped."""
    return tuple(_fitted(block, width) for block in page)


def columns_of(text: str) -> int:
    """Count the columns of a terminal that a text takes: wide characters take two, marks on others none.

    >>> columns_of("norm"), columns_of("规范"), columns_of("e\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def padded(text: str, width: int) -> str:
    """Fill a text up with blanks to so many columns."""
    return text + " " * (width - columns_of(text))


def in_ascii(text: str) -> str:
    """Write a text with the characters that every terminal has.

    >>> in_ascii("12.3 µs × 4…")
    '12.3 us x 4...'
    """
    for character, plain in _IN_ASCII.items():
        text = text.replace(character, plain)
    return text.encode("ascii", "replace").decode()


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


def visible(text: str) -> str:
    r"""Write characters that cannot be seen as what they are: on pages and in tables that are kept, nothing is lost.

    >>> visible("a\u202eb\r\n\x1b")
    'a⟦U+202E⟧b\n⟦U+001B⟧'
    """
    text = text.replace("\r\n", "\n")
    return _UNSEEN.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", text)


def first_line(text: str, *, limit: int = 120) -> str:
    r"""Give the first line that says something, cut to a length.

    >>> first_line("\n  boom\nat line 3")
    'boom'
    """
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = printable(line)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _fitted(block: Block, width: int) -> Block:
    if all(columns_of(line) <= width for line in block.text.splitlines()):
        return block
    text = "\n".join(_records(block.cells)) if len(block.cells) > 1 else block.text
    lines = [part for line in text.split("\n") for part in _wrapped(line, width)]
    return replace(block, text="\n".join(lines), cells=())


def _records(cells: Sequence[Sequence[str]]) -> Iterable[str]:
    """Give each row some lines: what it is about, then a line for every other cell that says something."""
    heads, *rows = cells
    margin = max(map(columns_of, heads))
    for row in rows:
        yield f"{_INDENT}{heads[0]} {row[0]}"
        for head, cell in zip(heads[1:], row[1:], strict=True):
            if cell:
                yield f"{_INDENT * 2}{padded(head, margin)}  {cell}"


def _wrapped(line: str, width: int) -> list[str]:
    """Break a line between words, further lines indented; a longer word stays whole."""
    first, *words = re.findall(r"\s*\S+", line) or [line]
    indent = first[: len(first) - len(first.lstrip())] + _INDENT
    lines = [first]
    for word in words:
        if columns_of(lines[-1] + word) <= width:
            lines[-1] += word
        else:
            lines.append(indent + word.lstrip())
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool]) -> str:
    return _GAP.join(
        " " * (width - columns_of(cell)) + cell if is_number else padded(cell, width)
        for cell, width, is_number in zip(cells, widths, are_numbers, strict=True)
    ).rstrip()
