"""A definition's reference as a solution, so that it is built and called like any other."""

from __future__ import annotations

from flashinfer_bench.data import (
    BuildSpec,
    Definition,
    Solution,
    SourceFile,
    SupportedLanguages,
)


def reference_solution(definition: Definition) -> Solution:
    """Wrap a definition's reference as a solution: `main.py::run`, value-returning."""
    return Solution(
        name=f"{definition.name}__reference",
        definition=definition.name,
        author="__builtin__",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu", "cuda"],
            entry_point="main.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="main.py", content=definition.reference)],
    )
