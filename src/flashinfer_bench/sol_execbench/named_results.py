"""Results that a user names beside the problems: each goes to the problem of its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.sol_execbench.reading import (
    LeftOutThere,
    add_solutions,
    label_of,
    traces_in,
)
from flashinfer_bench.sol_execbench.traces import TRACES_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.sol_execbench.reading import Problem
    from flashinfer_bench.sol_execbench.traces import FoundTrace


@dataclass(slots=True)
class NamedResults:
    """Results by file; what no problem has taken is named in the end."""

    labels: Sequence[str]
    """All problems: a folder of results that is called as one of them belongs to it alone."""
    found: list[FoundTrace] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    """Names of problems that were brought."""

    @classmethod
    def read(
        cls, paths: Sequence[Path], labels: Sequence[str], left_out: list[LeftOutThere]
    ) -> NamedResults:
        """Read files, and the files of results below folders."""
        results = cls(labels)
        files: dict[Path, Path] = {}
        for path in paths:
            named = [path] if path.is_file() else sorted(path.rglob(TRACES_PATTERN))
            if not named:
                raise UsageError(f"{path}: no file, and no folder with {TRACES_PATTERN} below it")
            files |= {each.resolve(): each for each in named}
        for file in files.values():
            results.found.extend(traces_in(file, file.parent, label_of(file.parent), left_out))
        return results

    def add_to(self, problem: Problem, left_out: list[LeftOutThere]) -> None:
        """Add the results of a problem that are not its own already, and the solutions beside them."""
        mine = [each for each in self.found if self._is_of(each, problem)]
        for folder in dict.fromkeys(each.file.parent for each in mine):
            if folder != problem.folder:
                add_solutions(problem, folder, folder, left_out)
        own = {each.trace.model_dump_json() for each in problem.traces}
        problem.traces.extend(each for each in mine if each.trace.model_dump_json() not in own)
        self.taken.add(problem.definition.name)

    def _is_of(self, found: FoundTrace, problem: Problem) -> bool:
        label = label_of(found.file.parent)
        has_name = found.trace.definition == problem.definition.name
        return has_name and (label == problem.label or label not in self.labels)

    def left(self) -> Iterator[LeftOutThere]:
        """Name the results of problems that were not brought."""
        for each in self.found:
            if each.trace.definition not in self.taken:
                reason = f"{each.file}:{each.line}: no problem of this name was brought"
                yield LeftOutThere(each.trace.definition, "trace", each.file.name, reason)
