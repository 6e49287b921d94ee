"""Generated candidates as KernelBench's harness leaves them: one file for each level, problem and sample."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.kernelbench.library import find, level_of, number_of

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(
    r"level_(?P<level>\d+)_problem_(?P<problem>\d+)_sample_(?P<sample>\d+)_kernel\.py"
)
_LEVEL = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """One file with a `ModelNew`, and the problem it is for."""

    problem: Path
    sample_id: int
    path: Path

    @property
    def level(self) -> int | None:
        """Level of its problem."""
        return level_of(self.problem)

    @property
    def problem_id(self) -> int | None:
        """Number of its problem within the level."""
        return number_of(self.problem)


def candidates_in(folder: Path, library: Path, *, only: str | None = None) -> list[Candidate]:
    """List the samples of a folder; `only` is a problem, or a level's number."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    named = [
        (match, path) for path in sorted(folder.iterdir()) if (match := _NAME.fullmatch(path.name))
    ]
    if not named:
        raise UsageError(
            f"{folder} holds no samples: they are called level_1_problem_19_sample_0_kernel.py"
        )
    if only is not None and _LEVEL.fullmatch(only):
        named = [(match, path) for match, path in named if match["level"] == only]
    wanted = None if only is None or _LEVEL.fullmatch(only) else find(only, library)
    found = [
        Candidate(find(f"{match['level']}/{match['problem']}", library), int(match["sample"]), path)
        for match, path in named
        if wanted is None or _is_of(match, wanted)
    ]
    if not found:
        raise UsageError(f"{folder} holds no samples of {only}")
    return sorted(found, key=_order)


def misnamed_in(folder: Path) -> list[Path]:
    """List the Python files of a folder that are not named like a sample, and so are none."""
    return [path for path in sorted(folder.glob("*.py")) if not _NAME.fullmatch(path.name)]


def _is_of(match: re.Match[str], problem: Path) -> bool:
    return (int(match["level"]), int(match["problem"])) == (level_of(problem), number_of(problem))


def _order(candidate: Candidate) -> tuple[int, int, int]:
    return candidate.level or 0, candidate.problem_id or 0, candidate.sample_id
