"""Sources as coloured HTML: other people's text, escaped by the library that colours it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexer import Lexer

_LONGEST = 400_000
"""Characters; a longer text is shown without colours."""


@cache
def highlighted(path: str, text: str) -> Markup:
    """Colour a source by the language its file name tells; a line that is linked to bears its number."""
    from pygments import highlight  # noqa: PLC0415  # read only where a page is written

    lexer = _lexer(path if len(text) <= _LONGEST else "x.txt")
    return Markup(highlight(text, lexer, _formatter()))  # noqa: S704  # the formatter escapes the text


@cache
def _formatter() -> HtmlFormatter[str]:
    from pygments.formatters.html import HtmlFormatter  # noqa: PLC0415

    return HtmlFormatter(nowrap=True, classprefix="s-")


def _lexer(path: str) -> Lexer:
    suffix = path.rpartition(".")[2].lower()
    return _lexer_of(suffix if suffix in _LANGUAGES else "txt")


_LANGUAGES = {
    "py": "python",
    "pyi": "python",
    "cu": "cuda",
    "cuh": "cuda",
    "c": "c",
    "h": "cpp",
    "hpp": "cpp",
    "cpp": "cpp",
    "cc": "cpp",
    "cxx": "cpp",
    "json": "json",
    "toml": "toml",
    "sh": "bash",
    "cmake": "cmake",
    "txt": "text",
}


@cache
def _lexer_of(suffix: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415

    return get_lexer_by_name(_LANGUAGES[suffix], stripnl=False, ensurenl=False)
