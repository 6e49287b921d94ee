"""Baseline and speed-of-light times that somebody else determined: what SOL-ExecBench's score compares with."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, FiniteFloat

from flashinfer_bench.data.entity import Entity, NonEmptyStr
from flashinfer_bench.data.files import load_json_file

if TYPE_CHECKING:
    from pathlib import Path

Milliseconds = Annotated[FiniteFloat, Field(gt=0)]


class GivenTime(Entity):
    """The two times of a workload."""

    definition: NonEmptyStr
    """Name of the definition, which is the problem."""
    workload: NonEmptyStr
    """Its uuid."""
    baseline_ms: Milliseconds
    """Time of the baseline."""
    sol_ms: Milliseconds
    """Time at the speed of light."""


class GivenTimes(Entity):
    """Times of one device, and where they come from."""

    device: NonEmptyStr
    """The hardware they belong to, as traces name it."""
    baseline: NonEmptyStr
    """What the baseline is, in words."""
    bound: NonEmptyStr
    """How the speed of light was determined, in words."""
    times: list[GivenTime] = Field(min_length=1)
    """One entry a workload."""

    @cached_property
    def by_workload(self) -> dict[tuple[str, str], GivenTime]:
        """The times by definition and uuid."""
        return {(each.definition, each.workload): each for each in self.times}


def read_times(path: Path) -> GivenTimes:
    """Read a file of times; further keys are refused."""
    return load_json_file(GivenTimes, path, strict=True)
