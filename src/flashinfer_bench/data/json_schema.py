"""JSON schemas of the entities, from their fields and the sentences beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.profile import Profile
from flashinfer_bench.data.solution import Solution
from flashinfer_bench.data.trace import Evaluation, Trace
from flashinfer_bench.data.workload import Workload
from flashinfer_bench.errors import UnknownNameError

if TYPE_CHECKING:
    from flashinfer_bench.data.entity import Entity

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
