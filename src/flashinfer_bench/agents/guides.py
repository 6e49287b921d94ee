"""What a program is told about writing kernels: a page for each language, shipped with this package."""

from __future__ import annotations

import functools
from pathlib import Path

from flashinfer_bench.agents.tools import LANGUAGES
from flashinfer_bench.errors import UnknownNameError

_PAGES = Path(__file__).with_name("pages")
RULES = "rules"
BINDING = "tvm_ffi"


@functools.cache
def page(name: str) -> str:
    """Read a page: a language's, `rules` or `tvm_ffi`."""
    return (_PAGES / f"{name}.md").read_text(encoding="utf-8")


def guide(language: str) -> str:
    """Give a language's page and the rules for all. Raises `UnknownNameError` for a language that has none."""
    if language not in LANGUAGES:
        raise UnknownNameError("language", language, LANGUAGES)
    return f"{page(language)}\n{page(RULES)}"


def ffi_prompt() -> str:
    """Give what a model needs for C++ and CUDA kernels: both pages, and the binding's reference."""
    return "\n".join(page(name) for name in ("cpp", "cuda", BINDING, RULES))


def short_ffi_prompt() -> str:
    """Give the binding's reference alone, with the rules."""
    return f"{page(BINDING)}\n{page(RULES)}"
