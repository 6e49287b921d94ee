"""What a library is compiled with."""

from __future__ import annotations

import pytest

from flashinfer_bench.compile.compiler import Recipe
from flashinfer_bench.compile.native import find_toolchain
from flashinfer_bench.compile.targets import BuildTarget
from flashinfer_bench.data import BuildSpec, Solution, SourceFile


def test_a_recipe_is_made_only_for_what_is_left_to_compile() -> None:
    spec = BuildSpec(language="cpp", target_hardware=["cpu"], entry_point="main.cpp::run")
    source = SourceFile(path="main.cpp", content="int run;")
    solution = Solution(name="s", definition="d", author="a", spec=spec, sources=[source])

    def recipe() -> Recipe:
        raise LookupError("it is made")

    toolchain = find_toolchain(solution, BuildTarget(), recipe)

    assert toolchain.facts
    with pytest.raises(LookupError, match="it is made"):
        toolchain.recipe()
