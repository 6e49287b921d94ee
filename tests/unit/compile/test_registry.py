from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import flashinfer_bench.compile
from flashinfer_bench.compile import BuilderRegistry, BuildError, Runnable, RunnableMetadata
from flashinfer_bench.compile.builders.python import PythonBuilder
from flashinfer_bench.compile.builders.tilelang import TileLangBuilder
from flashinfer_bench.data import BuildSpec, Definition, Solution, SourceFile

if TYPE_CHECKING:
    from pathlib import Path

DEFINITION = Definition.model_validate(
    {
        "name": "increment",
        "op_type": "elementwise",
        "axes": {},
        "inputs": {"x": {"shape": None, "dtype": "int32"}},
        "outputs": {"y": {"shape": None, "dtype": "int32"}},
        "reference": "def run(x):\n    return x + 1\n",
    }
)


def solution(name: str = "s", *, source: str = "def run(x):\n    return x + 1\n") -> Solution:
    spec = {
        "language": "python",
        "target_hardware": ["cpu"],
        "entry_point": "main.py::run",
        "destination_passing_style": False,
    }
    return Solution(
        name=name,
        definition="increment",
        author="tester",
        spec=BuildSpec.model_validate(spec),
        sources=[SourceFile(path="main.py", content=source)],
    )


def test_the_same_solution_is_built_once(tmp_path: Path) -> None:
    registry = BuilderRegistry(cache_root=tmp_path)

    assert registry.build(DEFINITION, solution()) is registry.build(DEFINITION, solution())


def test_the_same_code_under_two_names_is_two_runnables(tmp_path: Path) -> None:
    registry = BuilderRegistry(cache_root=tmp_path)

    names = [registry.build(DEFINITION, solution(n)).metadata.solution_name for n in ("a", "b")]

    assert names == ["a", "b"]


def test_a_changed_definition_is_checked_anew(tmp_path: Path) -> None:
    registry = BuilderRegistry(cache_root=tmp_path)
    registry.build(DEFINITION, solution())
    more = DEFINITION.inputs | {"z": DEFINITION.inputs["x"]}

    with pytest.raises(BuildError, match=r"called with \(x, z\)"):
        registry.build(DEFINITION.model_copy(update={"inputs": more}), solution())


def test_a_failure_is_remembered(tmp_path: Path) -> None:
    registry = BuilderRegistry(cache_root=tmp_path)
    broken = solution(source="def run(")
    with pytest.raises(BuildError) as first:
        registry.build(DEFINITION, broken)

    with pytest.raises(BuildError) as second:
        registry.build(DEFINITION, broken)

    assert second.value is first.value


def test_after_cleanup_a_solution_is_built_again(tmp_path: Path) -> None:
    registry = BuilderRegistry(cache_root=tmp_path)
    before = registry.build(DEFINITION, solution())
    registry.cleanup()

    after = registry.build(DEFINITION, solution())

    assert after is not before
    assert after(1) == 2


def test_the_reference_is_a_solution_that_returns(tmp_path: Path) -> None:
    runnable = BuilderRegistry(cache_root=tmp_path).build_reference(DEFINITION)

    assert runnable(41) == 42
    assert runnable.metadata.solution_name == "increment__reference"
    assert runnable.metadata.definition is DEFINITION


def test_a_solution_of_another_definition_is_built_for_the_one_that_is_named(
    tmp_path: Path,
) -> None:
    other = DEFINITION.model_copy(update={"name": "other"})

    runnable = BuilderRegistry(cache_root=tmp_path).build(other, solution())

    assert runnable(41) == 42
    assert runnable.metadata.definition is other


def test_a_registry_may_be_given_its_builders(tmp_path: Path) -> None:
    own = BuilderRegistry([PythonBuilder()], cache_root=tmp_path / "own")
    none = BuilderRegistry([], cache_root=tmp_path / "none")

    assert own.build(DEFINITION, solution())(41) == 42
    with pytest.raises(BuildError, match="none of the builders can build it"):
        none.build(DEFINITION, solution())


class Fixed:
    """A builder as people write it for the ecosystem."""

    def __init__(self, answer: int, *, is_available: bool = True) -> None:
        self.answer = answer
        self._is_available = is_available

    def is_available(self) -> bool:
        return self._is_available

    def can_build(self, solution: Solution) -> bool:
        return solution.name == "s"

    def build(self, definition: Definition, solution: Solution) -> Runnable:
        metadata = RunnableMetadata(
            build_type="fixed", definition_name=definition.name, solution_name=solution.name
        )
        return Runnable(lambda *_: self.answer, metadata)


@pytest.mark.parametrize(
    ("builders", "answer"),
    [
        ([Fixed(7)], 7),
        ([Fixed(6, is_available=False), Fixed(7)], 7),
        ([PythonBuilder(), Fixed(7)], 42),
        ([TileLangBuilder(), Fixed(7)], 7),
    ],
)
def test_builders_that_take_the_definition_are_asked_in_turn(
    tmp_path: Path, builders: list[Any], answer: int
) -> None:
    runnable = BuilderRegistry(builders, cache_root=tmp_path).build(DEFINITION, solution())

    assert runnable(41) == answer
    assert runnable.metadata.definition is DEFINITION


def test_the_process_shares_one_registry() -> None:
    assert BuilderRegistry.get_instance() is BuilderRegistry.get_instance()


def test_every_public_name_is_there() -> None:
    module = flashinfer_bench.compile

    assert all(getattr(module, name) for name in module.__all__)
    assert {
        "build",
        "Builder",
        "BuildError",
        "BuilderRegistry",
        "Runnable",
        "RunnableMetadata",
    } <= set(dir(module))
