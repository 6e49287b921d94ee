"""The solution in the CuTe DSL; its package is large, so these tests are often skipped."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.compile import Runnable, build
from flashinfer_bench.data import Solution, TraceSet
from flashinfer_bench.data.folders import pack
from flashinfer_bench.errors import ToolchainMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[2] / "examples"
CUBIN = re.compile(r"\\7FELF\\02(?:\\\w\w|[^\\]){13}\\BE\\00")  # machine 190 is a CUDA binary
IS_INSTALLED = importlib.util.find_spec("cutlass") is not None
needs_cute = pytest.mark.skipif(
    not IS_INSTALLED, reason="nvidia-cutlass-dsl is not installed: pip install '.[cute]'"
)


@pytest.fixture
def solution() -> Solution:
    return pack(EXAMPLES / "cute" / "rmsnorm_h4096_cute")


@pytest.fixture
def built(solution: Solution, tmp_path: Path) -> Iterator[Runnable]:
    pytest.importorskip("torch", reason="the CuTe example needs torch")
    definition = TraceSet.from_path(EXAMPLES / "dataset").definitions[solution.definition]
    runnable = build(solution, definition.signature(), cache_root=tmp_path)
    yield runnable
    runnable.cleanup()


def test_the_example_says_what_made_it(solution: Solution) -> None:
    assert (solution.spec.language, solution.spec.dsl) == ("python", "cute")


@needs_cute
def test_the_kernel_compiles_without_a_gpu(built: Runnable) -> None:
    compiled = built.callable.__globals__["compiled"]("sm_90a")

    assert CUBIN.search(str(compiled.ir_module))


@pytest.mark.skipif(IS_INSTALLED, reason="nvidia-cutlass-dsl is installed")
def test_without_the_package_the_extra_is_named(solution: Solution, tmp_path: Path) -> None:
    definition = TraceSet.from_path(EXAMPLES / "dataset").definitions[solution.definition]

    with pytest.raises(ToolchainMissingError, match=r"pip install 'flashinfer-bench\[cute\]'"):
        build(solution, definition.signature(), cache_root=tmp_path)
