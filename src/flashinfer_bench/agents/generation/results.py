"""What a search for a kernel came to, as the value that `generate --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.agents.generation.rounds import GeneratedCandidate, Verdict
    from flashinfer_bench.agents.generation.splitting import WorkloadSplit


@dataclass(frozen=True, slots=True)
class CandidateLine:
    """One kernel that a model wrote."""

    round: int
    verdict: Verdict
    """`refused`: right on the workloads that the model was told, and not on those held out."""
    solution: str | None
    solution_hash: str | None
    parent: str | None
    visible_passed: int
    held_out_passed: int
    speedup: float | None
    told: str
    folder: str | None = None
    """Where it was kept."""


@dataclass(frozen=True, slots=True)
class GenerationReport:
    """A search and all that it tried."""

    definition: str
    language: str
    model: str
    endpoint: str
    visible: int
    """Workloads that the model was told."""
    held_out: int
    is_drawn: bool
    """Whether the held-out ones are sizes drawn for this search."""
    candidates: tuple[CandidateLine, ...]
    best: str | None
    """The accepted solution with the highest speedup."""
    prompt_tokens: int
    completion_tokens: int
    device_s: float
    cost_usd: float | None
    """Of all tokens; None where `--usd-per-million-tokens` was not given."""
    transcript: str
    ended_by: str
    """`rounds`, `budget`, `interrupted`, or what the endpoint said."""


def candidate_line(candidate: GeneratedCandidate, folder: str | None) -> CandidateLine:
    """Sum a candidate up."""
    solution = candidate.solution
    return CandidateLine(
        round=candidate.round,
        verdict=candidate.verdict,
        solution=solution.name if solution else None,
        solution_hash=solution.hash() if solution else None,
        parent=candidate.parent,
        visible_passed=candidate.passed_count(candidate.visible),
        held_out_passed=candidate.passed_count(candidate.held_out),
        speedup=candidate.speedup,
        told=candidate.told,
        folder=folder,
    )


def best_of(lines: Sequence[CandidateLine]) -> str | None:
    """Name the accepted solution with the highest speedup."""
    accepted = [each for each in lines if each.verdict == "accepted"]
    return max(accepted, key=lambda each: each.speedup or 0.0).solution if accepted else None


def split_text(split: WorkloadSplit) -> str:
    """Say which workloads decide."""
    drawn = "sizes drawn for this search" if split.is_drawn else "of the dataset, held out"
    return f"{len(split.visible)} workloads shown to the model; {len(split.held_out)} {drawn}"
