"""Sources as coloured HTML: other people's text, escaped by the library that colours it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from flashinfer_bench.text.tables import visible

if TYPE_CHECKING:
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexer import Lexer

_LONGEST = 400_000
"""Characters; a longer text is shown without colours."""
_MOST_OF_A_LOG = (4_000, 12_000)
"""Characters shown of its beginning and of its end."""
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def readable_log(log: str) -> str:
    """Take colours of terminals out of a log, and the middle where it is long."""
    text = visible(_TERMINAL_SEQUENCE.sub("", log))
    begin, end = _MOST_OF_A_LOG
    if len(text) <= begin + end:
        return text
    left_out = len(text) - begin - end
    return f"{text[:begin]}\n… {left_out:,} characters left out …\n{text[-end:]}"


def line_numbers(text: str) -> str:
    r"""Number a text's lines, one number a line.

    >>> line_numbers("a\nb\n")
    '1\n2'
    """
    return "\n".join(map(str, range(1, len(visible(text).removesuffix("\n").split("\n")) + 1)))


@cache
def highlighted(path: str, text: str) -> Markup:
    """Colour a source by the language its file name tells."""
    from pygments import highlight  # noqa: PLC0415  # read only where a page is written

    lexer = _lexer(path if len(text) <= _LONGEST else "x.txt")
    return Markup(highlight(visible(text), lexer, _formatter()))  # noqa: S704  # the formatter escapes the text


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
