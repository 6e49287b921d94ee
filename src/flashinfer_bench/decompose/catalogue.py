"""What datasets of decomposed models agree on: how a piece is known again, how a workload is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.workload import Workload

FRAMEWORK = "PyTorch"
IDENTITY_TAG = "identity:"
IDENTITY_DIGITS = 16


def identity_tag(identity: str) -> str:
    """Write an identity as a definition's tag."""
    return f"{IDENTITY_TAG}{identity[:IDENTITY_DIGITS]}"


def identity_of(definition: Definition) -> str | None:
    """Read the identity of the piece a definition was made of; none where it was made otherwise."""
    for tag in definition.tags:
        if tag.startswith(IDENTITY_TAG):
            return tag.removeprefix(IDENTITY_TAG)
    return None


def is_same(one: Workload, other: Workload) -> bool:
    """Tell whether two workloads of a definition have the same sizes and inputs."""
    return one.axes == other.axes and one.inputs == other.inputs
