"""What a policy writes becomes a solution: a source, a file, or a whole solution."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli.measure.kernel_files import LANGUAGES_BY_SUFFIX, Hints, solution_from
from flashinfer_bench.data import Solution
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Definition

AUTHOR = "policy"
_FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_SUFFIXES = {language: suffix for suffix, language in reversed(LANGUAGES_BY_SUFFIX.items())}
_IS_CUDA = re.compile(r"__global__|<<<|cuda_runtime")
_IS_CPP = re.compile(r"^\s*#\s*include\b", re.MULTILINE)


def code_of(text: str) -> str:
    r"""Take the last fenced block of an answer; all of it where there is none.

    >>> code_of("Like this:\n```python\ndef run(x):\n    return x\n```\nDone.")
    'def run(x):\n    return x\n'
    """
    blocks: list[str] = _FENCE.findall(text)
    return blocks[-1] if blocks else text


def candidate_of(
    code: str | Path | Solution,
    definition: Definition,
    *,
    kinds: Sequence[str] = ("cpu",),
    language: str | None = None,
    entry_point: str | None = None,
) -> Solution:
    """Make a solution that is named by its content; `UsageError` where no function can be told from the source.

    A `str` is source code; its language is read off it: `#include` is C++, or CUDA with `__global__`, all else Python.
    `kinds` are the kinds of devices that it may run on.
    """
    if isinstance(code, Solution):
        if code.definition != definition.name:
            raise UsageError(f"{code.name} implements {code.definition}, not {definition.name}")
        return _named(code)
    made = (
        solution_from(code, definition, Hints(language, entry_point, kinds[0]))
        if isinstance(code, Path)
        else _from_text(code, definition, Hints(language, entry_point, kinds[0]))
    )
    targets = ["cuda"] if made.spec.language.value == "cuda" else list(kinds)
    spec = made.spec.model_copy(update={"target_hardware": targets})
    return _named(_without_file_name(made.model_copy(update={"spec": spec})))


def _without_file_name(solution: Solution) -> Solution:
    """Call a single source `kernel`, whatever its file was called: the same content is the same candidate."""
    if len(solution.sources) > 1:
        return solution
    path = f"kernel{Path(solution.sources[0].path).suffix}"
    entry = f"{path}::{solution.get_entry_symbol()}"
    return solution.model_copy(
        update={
            "sources": [solution.sources[0].model_copy(update={"path": path})],
            "spec": solution.spec.model_copy(update={"entry_point": entry}),
        }
    )


def _from_text(text: str, definition: Definition, hints: Hints) -> Solution:
    suffix = _SUFFIXES.get(hints.language or _language_of(text), ".py")
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the code has half a character in it (a lone surrogate): write UTF-8"
        ) from error
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-judge-") as folder:
        file = Path(folder) / f"kernel{suffix}"
        file.write_bytes(content)
        return solution_from(file, definition, hints)


def _language_of(text: str) -> str:
    if not _IS_CPP.search(text):
        return "python"
    return "cuda" if _IS_CUDA.search(text) else "cpp"


def _named(solution: Solution) -> Solution:
    """Name by content: what a policy calls its kernel, and who wrote it, is no part of it."""
    digits = hashlib.sha256(solution.hash().encode()).hexdigest()[:12]
    return solution.model_copy(
        update={"name": f"candidate_{digits}", "author": AUTHOR, "description": None}
    )
