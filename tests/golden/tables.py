"""The tables of a page, as a program reads them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple


class Cell(NamedTuple):
    text: str
    value: str | None


class Tables(HTMLParser):
    """The tables of a page by id, each a list of rows: a cell by what its column is called."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, list[dict[str, Cell]]] = {}
        self._heads: list[str] = []
        self._cells: list[Cell] = []
        self._table: str | None = None
        self._words: list[str] | None = None
        self._value: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        carried = dict(attributes)
        if tag == "table":
            self._table, self._heads = carried.get("id"), []
        elif tag == "tr":
            self._cells = []
        elif tag in {"td", "th"}:
            self._words, self._value = [], carried.get("data-v")

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"} and self._words is not None:
            text = " ".join("".join(self._words).split())
            self._words = None
            if tag == "th":
                self._heads.append(text)
            else:
                self._cells.append(Cell(text, self._value))
        elif tag == "tr" and self._cells and self._table:
            row = dict(zip(self._heads, self._cells, strict=True))
            self.found.setdefault(self._table, []).append(row)
