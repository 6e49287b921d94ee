"""For other programs: JSON schemas of the entities, and what FlashInfer Trace's own readers do not understand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.exchange.merging import ReaderFormat
from flashinfer_bench.data.profile import Profile
from flashinfer_bench.data.shapes import AxisConst, AxisVar
from flashinfer_bench.data.solution import Solution
from flashinfer_bench.data.trace import Evaluation, Trace
from flashinfer_bench.data.workload import Workload
from flashinfer_bench.errors import UnknownNameError

if TYPE_CHECKING:
    from flashinfer_bench.data.entity import Entity


def flashinfer_trace() -> ReaderFormat:
    """Describe the format that other readers of FlashInfer Trace take."""
    return ReaderFormat(has_solution_folders=False, why_not=_why_not)


def _why_not(entity: Definition | Solution) -> str | None:
    return _of_definition(entity) if isinstance(entity, Definition) else _of_solution(entity)


def _of_definition(definition: Definition) -> str | None:
    derived = [
        name for name, axis in definition.axes.items() if not isinstance(axis, AxisConst | AxisVar)
    ]
    return f"axis {derived[0]!r} follows from others, which has no form there" if derived else None


def _of_solution(solution: Solution) -> str | None:
    if solution.spec.prepare or solution.spec.plan:
        return "it has a prepare or plan function, which would not be called there"
    empty = [source.path for source in solution.sources if not source.content]
    return f"source {empty[0]!r} is empty, which is refused there" if empty else None


_ENTITIES: dict[str, type[Entity]] = {
    cls.__name__.lower(): cls
    for cls in (Definition, Workload, Solution, Evaluation, Trace, Profile)
}


def schema_of(entity: str) -> dict[str, Any]:
    """Give the JSON schema of one entity, named in any case."""
    cls = _ENTITIES.get(entity.lower())
    if cls is None:
        raise UnknownNameError("entity", entity, _ENTITIES)
    return cls.model_json_schema()


def schemas() -> dict[str, dict[str, Any]]:
    """Give the JSON schema of every entity by its name."""
    return {cls.__name__: cls.model_json_schema() for cls in _ENTITIES.values()}
