"""A symbol that nothing defines: its name as people write it, and the line of the sources that uses it."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data import Solution

_QUOTED = r"['\"`](?P<{0}>[^'\"]+)['\"]"
_UNDEFINED = re.compile(
    rf"undefined symbol: (?P<loader>\w+)|[Uu]ndefined reference to {_QUOTED.format('linker')}"
    rf"|Unresolved extern (?:function|variable) {_QUOTED.format('ptxas')}"
)
_PLACED = re.compile(r":\d+: undefined reference to ")
_NAME = re.compile(r"[^\W\d]\w*(?=(?:<[^()]*>)?(?:\(|$))")
"""The last name of a qualified one, without its parameters: `scale` of `of<int>::scale<2>(float)`."""
_DECLARED = r"^(?!\s*(?:return|throw|else|do)\b)[\w:\"{<>,*& \t]*[\w>][ \t*&]+"
"""What stands before a name that is declared: nothing but a type."""
_COMMENT = ("//", "*", "/*")


def undefined_in(words: str) -> Iterator[str]:
    """Yield the symbols that a linker, a loader or an assembler for GPUs says are undefined."""
    for each in _UNDEFINED.finditer(words):
        yield from filter(None, each.groups())


def with_place(solution: Solution, words: str) -> str:
    """Add a line, as compilers write them, for the first undefined symbol that a linker or loader names.

    Words that name none, or already its place, stay as they are.
    """
    symbol = next(undefined_in(words), None)
    if symbol is None or _PLACED.search(words):
        return words
    name = _demangled(symbol)
    place = next(_uses(solution, name), None)
    return words if place is None else f"{place}: error: undefined reference to '{name}'\n{words}"


def _demangled(symbol: str) -> str:
    """Ask the toolchain for a symbol's name; without its program the symbol stays."""
    program = shutil.which("c++filt")
    if program is None:
        return symbol
    done = subprocess.run([program, symbol], capture_output=True, text=True, check=False)
    return done.stdout.strip() or symbol


def _uses(solution: Solution, name: str) -> Iterator[str]:
    """Yield the places that call a function, then those that only declare it."""
    found = _NAME.search(name)
    if found is None:
        return
    word = rf"\b{found.group()}\b"
    places = [
        (f"./{source.path}:{number}", re.search(_DECLARED + word, line) is not None)
        for source in solution.sources
        for number, line in enumerate(source.content.splitlines(), start=1)
        if re.search(word, line) and not line.lstrip().startswith(_COMMENT)
    ]
    yield from (place for place, is_declaration in places if not is_declaration)
    yield from (place for place, _ in places)
