"""The Python packages a solution says it needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from typing import TYPE_CHECKING

from flashinfer_bench.errors import ToolchainMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Solution

_EXTRAS = {
    "nvidia-cutlass-dsl": "flashinfer-bench[cute]",
    "tilelang": "flashinfer-bench[tilelang]",
    "triton": "flashinfer-bench[triton]",
}
"""Packages that come with an extra of ours, in versions that go together."""
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def require_dependencies(solution: Solution) -> None:
    """Raise when a Python package that the solution names is not installed.

    People write both kinds of name, `flashinfer-python` and `flashinfer`: either is found. Versions
    and markers (`numba>=0.60`) are for the installer and not compared here.
    """
    require_packages(solution, solution.spec.dependencies)


def require_packages(solution: Solution, lines: Sequence[str]) -> None:
    """Raise when one of `lines`, Python packages that the solution names, is not installed."""
    missing = [line for line in lines if not _is_installed(line)]
    if missing:
        quoted = " ".join(f"'{_EXTRAS.get(line, line)}'" for line in missing)
        raise ToolchainMissingError(
            f"solution {solution.name!r} needs {', '.join(missing)}, which is not installed: "
            f"pip install {quoted}"
        )


def _is_installed(requirement: str) -> bool:
    match = _DISTRIBUTION.match(requirement.strip())
    if match is None:
        return False
    name = match.group()
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return "." not in name and importlib.util.find_spec(name) is not None
    return True
