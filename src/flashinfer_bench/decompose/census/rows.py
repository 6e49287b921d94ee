"""What became of each architecture, and what all of them come to; no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Status = Literal["verified", "decomposed", "late", "failed"]
SHARES = (0.90, 0.962, 0.99)
"""Of all kinds of kernel; the second is the share that others have published."""


@dataclass(frozen=True, slots=True)
class ArchitectureRow:
    """What became of one architecture."""

    architecture: str
    status: Status = "failed"
    """`decomposed`: taken apart, and the verification has findings; `late`: its time was up."""
    stage: str = ""
    """How far it came: configuration, construction, inputs, decomposition, verification."""
    reason: str = ""
    model: str = ""
    parameters: int = 0
    step: int = 0
    """Which step of the trial of sizes ran, from 1."""
    is_overridden: bool = False
    operations: int = 0
    kernels: int = 0
    different_kernels: int = 0
    front_end: str = ""
    equality: str = ""
    weak_workloads: int = 0
    """Workloads on which a wrong kernel passes; they are marked."""
    kinds: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By kind of kernel its op type and its calls."""

    @property
    def is_decomposed(self) -> bool:
        """Whether every operation was given a place in a piece."""
        return bool(self.kinds) and self.front_end != "opaque"


@dataclass(frozen=True, slots=True)
class Examination:
    """Which architecture, where its file goes, and how long it may take."""

    library: str
    name: str
    folder: Path
    """The census's: model files go to `models`, decompositions to `decomposed`."""
    seconds: float
    """Of processor time, so that a busy machine gives the same table."""
    is_kept: bool = False
    """Whether the decomposition stays."""


@dataclass(frozen=True, slots=True)
class KernelKind:
    """One kind of kernel over all architectures."""

    kind: str
    op_type: str
    architectures: int
    calls: int
    answered_by: tuple[str, ...] = ()
    """Definitions of the dataset that was named whose op type this is."""


@dataclass(frozen=True, slots=True)
class CoveringSet:
    """The models that a greedy search chose, in its order, to reach a share of all kinds."""

    share: float
    kinds: int
    architectures: tuple[str, ...]
    whole_architectures: int
    """Architectures all of whose kinds the chosen ones have."""


@dataclass(frozen=True, slots=True)
class CensusReport:
    """What became of all architectures that were asked for, and what kernels they have."""

    library: str
    version: str
    registered: int
    """Folders of modelling code that the library's registry of configurations names."""
    rows: tuple[ArchitectureRow, ...]
    resumed: int
    kinds: tuple[KernelKind, ...]
    covering: tuple[CoveringSet, ...]
    dataset: str | None = None

    @property
    def counts(self) -> dict[Status, int]:
        """Count architectures by what became of them."""
        states: tuple[Status, ...] = ("verified", "decomposed", "late", "failed")
        return {each: sum(row.status == each for row in self.rows) for each in states}


def kernel_dictionary(
    rows: Sequence[ArchitectureRow], definitions: Mapping[str, str]
) -> tuple[KernelKind, ...]:
    """Merge the kinds of all architectures, the most frequent first; `definitions` maps names to op types."""
    op_types: dict[str, list[str]] = {}
    calls: dict[str, int] = {}
    for row in rows:
        for kind, (op_type, count) in row.kinds.items():
            op_types.setdefault(kind, []).append(op_type)
            calls[kind] = calls.get(kind, 0) + count
    made = []
    for kind, met in op_types.items():
        names = sorted(set(met), key=lambda name: (-met.count(name), name))
        answers = tuple(
            sorted(name for name, other in definitions.items() if _is_same(other, names))
        )
        made.append(KernelKind(kind, names[0], len(met), calls[kind], answers))
    return tuple(sorted(made, key=lambda each: (-each.architectures, each.op_type, each.kind)))


_CALLED: Mapping[str, str] = {"linear": "gemm", "matmul": "gemm", "apply_rotary_pos_emb": "rope"}
"""What torch and transformers call an operation, and the op type of datasets."""


def _is_same(op_type: str, names: Sequence[str]) -> bool:
    plain = op_type.replace("_", "")
    return any(_CALLED.get(name, name).replace("_", "") == plain for name in names)


def covering_sets(rows: Sequence[ArchitectureRow]) -> tuple[CoveringSet, ...]:
    """Choose models greedily: each time the one with the most kinds not met yet, the first by name of equals.

    Greedy is no proof that no smaller set exists; it is within the usual factor of one, the logarithm of the
    largest model's number of kinds.
    """
    left = {row.architecture: set(row.kinds) for row in rows if row.kinds}
    everything = set().union(*left.values()) if left else set()
    chosen: list[str] = []
    met: set[str] = set()
    found = []
    for share in SHARES:
        while len(met) < share * len(everything):
            best = min(left, key=lambda name: (-len(left[name] - met), name))
            chosen.append(best)
            met |= left[best]
        whole = sum(kinds <= met for kinds in left.values())
        found.append(CoveringSet(share, len(met), tuple(chosen), whole))
    return tuple(found)
