"""The dataset: load it, look things up in it, add to it."""

from __future__ import annotations

import functools
import itertools
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import appending, opening, settings
from flashinfer_bench.data.blobs import (
    find_all_samples,
    find_samples,
    load_tensors,
    samples_line,
    save_tensors,
)
from flashinfer_bench.data.files import lines_of
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.data.loading import Homes, load
from flashinfer_bench.data.rows import is_good, speedup_of
from flashinfer_bench.data.scores import (
    Scorer,
    SpeedupMetrics,
    TraceSetSummary,
    records_by_solution,
)
from flashinfer_bench.data.trace_lists import TraceLists
from flashinfer_bench.errors import DuplicateNameError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import torch

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.entity import Entity
    from flashinfer_bench.data.rows import Describe, TraceRow
    from flashinfer_bench.data.solution import Solution
    from flashinfer_bench.data.trace import Trace


class TraceSet:
    """Definitions with their solutions, workloads and traces; with a root, also on disk."""

    root: Path | None
    """Folder of the dataset; None keeps everything in memory."""
    definitions: dict[str, Definition]
    """Definitions by name."""
    solutions: dict[str, list[Solution]]
    """Solutions by definition name."""
    workloads: TraceLists
    """Workload-only traces by definition name: a dict of lists."""
    traces: TraceLists
    """Full traces by definition name: a dict of lists, each parsed when first looked at."""
    roots: tuple[Path, ...]
    """All folders of the view."""
    output: Path | None
    """Folder that takes whatever is added; None: the root that holds the solution."""

    def __init__(
        self,
        root: Path | str | None = None,
        definitions: dict[str, Definition] | None = None,
        solutions: dict[str, list[Solution]] | None = None,
        workloads: dict[str, list[Trace]] | None = None,
        traces: dict[str, list[Trace]] | None = None,
    ) -> None:
        self.root = None if root is None else Path(root)
        self.definitions = {} if definitions is None else definitions
        self.solutions = {} if solutions is None else solutions
        self.workloads = TraceLists(workloads, of_workloads=True)
        self.traces = TraceLists(traces)
        self.roots = () if self.root is None else (self.root,)
        self.output = None
        self._homes = Homes()
        self._files_by_owner: dict[tuple[str, str, Path], tuple[str, str, str]] = {}
        self._solutions_by_name = self._indexed()

    @classmethod
    def from_path(cls, path: Path | str | None = None) -> TraceSet:
        """Load a dataset; None means the one the environment names."""
        return cls.from_paths([settings.dataset_path() if path is None else path])

    @classmethod
    def from_paths(cls, paths: Sequence[Path | str], output: Path | str | None = None) -> TraceSet:
        """Load several folders as one view; `output`, if given, takes whatever is added."""
        roots = list(dict.fromkeys(Path(path) for path in paths))
        target = None if output is None else Path(output)
        if target is not None and target not in roots and target.is_dir():
            roots.append(target)
        view = load([Layout(root) for root in roots])
        solutions: dict[str, list[Solution]] = {}
        for solution in view.solutions.values():
            solutions.setdefault(solution.definition, []).append(solution)
        trace_set = cls(roots[0] if roots else target, view.definitions, solutions)
        trace_set.workloads = TraceLists(
            segments=view.workloads, unknown=view.unknown, of_workloads=True
        )
        trace_set.traces = TraceLists(segments=view.traces, unknown=view.unknown)
        trace_set.roots, trace_set.output = tuple(roots), target
        trace_set._homes = view.homes
        return trace_set

    @classmethod
    def create(cls, path: Path | str) -> TraceSet:
        """Make the folders of a dataset where there are none, and load it."""
        layout = Layout(Path(path))
        for folder in (layout.definitions, layout.solutions, layout.workloads, layout.traces):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise appending.storage_error(folder, error) from error
        return cls.from_path(path)

    # Paths

    @property
    def definitions_path(self) -> Path:
        """Folder of definitions."""
        return self._layout.definitions

    @property
    def solutions_path(self) -> Path:
        """Folder of solutions."""
        return self._layout.solutions

    @property
    def workloads_path(self) -> Path:
        """Folder of workloads."""
        return self._layout.workloads

    @property
    def traces_path(self) -> Path:
        """Folder of traces."""
        return self._layout.traces

    @property
    def blob_path(self) -> Path:
        """Folder of stored tensors."""
        return self._layout.blob

    @property
    def blob_workloads_path(self) -> Path:
        """Folder of tensors that workloads use."""
        return self._layout.blob_workloads

    @property
    def _layout(self) -> Layout:
        if self.root is None:
            raise UsageError("this trace set has no root: it lives in memory only")
        return Layout(self.root)

    def _target(self, home: Layout | None) -> Layout | None:
        """Where something is written: the output, else the root it belongs to, else nowhere."""
        if self.output is not None:
            return Layout(self.output)
        return home or (None if self.root is None else Layout(self.root))

    def _folders(self) -> list[Path]:
        """Every folder something may lie in."""
        candidates = (*self.roots, self.root, self.output)
        return list(dict.fromkeys(folder for folder in candidates if folder is not None))

    # Looking up

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-ready dictionaries."""
        return {
            "definitions": {name: each.to_dict() for name, each in self.definitions.items()},
            "solutions": _plain(self.solutions),
            "workload": _plain(self.workloads),
            "traces": _plain(self.traces),
        }

    def get_solution(self, name: str) -> Solution | None:
        """Find a solution by its name, unique across the dataset."""
        if name not in self._solutions_by_name:
            self._solutions_by_name = self._indexed()
        return self._solutions_by_name.get(name)

    def _indexed(self) -> dict[str, Solution]:
        index: dict[str, Solution] = {}
        for solution in itertools.chain.from_iterable(self.solutions.values()):
            if index.setdefault(solution.name, solution) is not solution:
                raise DuplicateNameError(f"two solutions are called {solution.name!r}")
        return index

    def rows(self, definition: str | None = None) -> Iterator[TraceRow]:
        """Yield every evaluated trace as a flat row, fast: no entity is built."""
        names = list(self.traces) if definition is None else [definition]
        describe = self._describe()
        return (row for name in names for _, row in self.traces.rows(name, describe))

    def _describe(self) -> Describe:
        known = {
            solution.name: (solution.author, solution.spec.language.value)
            for solution in itertools.chain.from_iterable(self.solutions.values())
        }
        return lambda name: known.get(name, (None, None))

    def filter_traces(self, def_name: str, atol: float = 1e-2, rtol: float = 1e-2) -> list[Trace]:
        """Passed traces of a definition with both error maxima within bounds."""
        return [trace for trace in self.traces.get(def_name, ()) if is_good(trace, atol, rtol)]

    def get_best_trace(
        self,
        def_name: str,
        axes: Mapping[str, int] | None = None,
        max_abs_error: float | None = 1e-2,
        max_rel_error: float | None = 1e-2,
    ) -> Trace | None:
        """Passed trace with the highest speedup on these axes; a bound of None is off."""
        wanted = (axes or {}).items()
        best, best_at = -1.0, -1
        for index, trace in enumerate(self.traces.contenders(def_name)):
            speedup = speedup_of(trace)
            if (
                speedup is not None
                and speedup > best
                and is_good(trace, max_abs_error, max_rel_error)
                and wanted <= trace.workload.axes.items()
            ):
                best, best_at = speedup, index
        return None if best_at < 0 else self.traces.trace_at(def_name, best_at)

    # Scoring

    def summary(
        self,
        baseline_author: str = "baseline",
        op_type: str | None = None,
        definition_name: str | None = None,
    ) -> TraceSetSummary:
        """Count all traces and rank authors in scope; what cannot be ranked is listed."""
        return self._scorer(baseline_author).summary(self.traces, op_type, definition_name)

    def get_solution_score(
        self, solution_name: str, baseline_author: str = "baseline"
    ) -> SpeedupMetrics | None:
        """Score a solution against its definition's baseline; None where nothing compares."""
        solution = self.get_solution(solution_name)
        return None if solution is None else self._scorer(baseline_author).solution_score(solution)

    def get_author_score(
        self,
        author: str,
        baseline_author: str = "baseline",
        op_type: str | None = None,
        definition_name: str | None = None,
    ) -> SpeedupMetrics | None:
        """Average an author's best solutions over the definitions they have solutions for."""
        return self._scorer(baseline_author).author_score(author, op_type, definition_name)

    def rank_authors(
        self,
        baseline_author: str = "baseline",
        op_type: str | None = None,
        definition_name: str | None = None,
    ) -> list[tuple[str, SpeedupMetrics]]:
        """Order authors by average speedup; raise where a definition has no unique baseline."""
        return self._scorer(baseline_author).ranking(op_type, definition_name)

    def _scorer(self, baseline_author: str) -> Scorer:
        records = functools.cache(lambda name: records_by_solution(self.rows(name)))
        return Scorer(self.definitions, self.solutions, records, baseline_author)

    # Adding

    def add_traces(self, traces: Iterable[Trace]) -> None:
        """Add full traces, to memory and to disk, all or none."""
        traces = list(traces)
        groups: defaultdict[str, list[Trace]] = defaultdict(list)
        for trace in traces:
            file, *_ = self._files(trace, author=None)
            if file:
                groups[file].append(trace)
        self._append_all(groups)
        for trace in traces:
            self.traces.append(trace)

    def add_workload_traces(self, traces: Iterable[Trace]) -> None:
        """Add workload-only traces, to memory and to disk, all or none."""
        traces = list(traces)
        groups: defaultdict[str, list[Trace]] = defaultdict(list)
        for trace in traces:
            definition = self._require_definition(trace.definition)
            if not trace.is_workload_trace():
                raise UsageError(f"a trace of {trace.solution!r} is not workload-only")
            target = self._target(self._homes.definitions.get(trace.definition))
            if target is not None:
                groups[str(target.workload_file(definition))].append(trace)
        self._append_all(groups)
        for trace in traces:
            self.workloads.append(trace)

    @staticmethod
    def _append_all(groups: Mapping[str, Sequence[Trace]]) -> None:
        appending.append({path: lines_of(group) for path, group in groups.items()})

    def append(
        self,
        trace: Trace,
        *,
        samples: Mapping[str, Sequence[float]] | None = None,
        author: str | None = None,
        signature: bytes | None = None,
    ) -> None:
        """Add one full trace; it is on disk, after its raw samples, when this returns.

        `samples` are milliseconds by participant. `author` is needed only for a solution that the
        dataset does not hold. `signature` is the line that a worker of a service signed it with.
        """
        trace_file, samples_file, signatures_file = self._files(trace, author)
        if trace_file:
            sidecar = {samples_file: samples_line(trace, samples)} if samples else {}
            if signature is not None:
                sidecar[signatures_file] = signature
            appending.append({**sidecar, trace_file: f"{trace.to_json()}\n".encode()})
        self.traces.append(trace)

    def samples_of(self, trace: Trace) -> dict[str, list[float]] | None:
        """Read a trace's raw samples, milliseconds by participant; None where none were kept."""
        definition = self.definitions.get(trace.definition)
        if definition is None:
            return None
        files = itertools.chain.from_iterable(
            Layout(folder).samples_files(definition) for folder in self._folders()
        )
        return find_samples(trace, files)

    def samples_by_trace_id(
        self, def_name: str, trace_ids: Iterable[str]
    ) -> dict[str, dict[str, list[float]]]:
        """Read the raw samples of several traces of a definition, milliseconds by participant."""
        definition = self._require_definition(def_name)
        files = itertools.chain.from_iterable(
            Layout(folder).samples_files(definition) for folder in self._folders()
        )
        return find_all_samples(trace_ids, files)

    def backup_traces(self) -> None:
        """Move the traces on disk aside, under the time; those in memory stay."""
        target = self._target(None)
        if target is None or not target.traces.exists():
            return
        aside = _unused(target.root / f"traces_bak_{time.strftime('%Y%m%d_%H%M%S')}")
        try:
            target.traces.rename(aside)
            target.traces.mkdir()
        except OSError as error:
            raise appending.storage_error(target.traces, error) from error

    def _require_definition(self, name: str) -> Definition:
        if name not in self.definitions:
            raise UnknownNameError("definition", name, self.definitions)
        return self.definitions[name]

    def _files(self, trace: Trace, author: str | None) -> tuple[str, str, str]:
        """Files for a full trace, its samples and its signature; empty names for a set in memory."""
        definition = self._require_definition(trace.definition)
        if trace.solution is None or trace.evaluation is None:
            raise UsageError(f"a trace of {trace.definition} lacks solution or evaluation")
        if author is None:
            author = self._require_solution(trace.solution).author
        target = self._target(self._homes.solutions.get(trace.solution))
        if target is None:
            return "", "", ""
        key = (author, definition.name, target.root)
        if key not in self._files_by_owner:
            self._files_by_owner[key] = (
                str(target.trace_file(author, definition)),
                str(target.samples_file(author, definition)),
                str(target.signatures_file(author, definition)),
            )
        return self._files_by_owner[key]

    def _require_solution(self, name: str) -> Solution:
        solution = self.get_solution(name)
        if solution is None:
            raise UnknownNameError("solution", name, self._solutions_by_name)
        return solution

    # Tensors

    def add_workload_blob_tensor(
        self, def_name: str, workload_uuid: str, tensors: Mapping[str, torch.Tensor]
    ) -> str:
        """Store a workload's tensors; give the file's path relative to the root."""
        definition = self._require_definition(def_name)
        target = self._target(self._homes.definitions.get(def_name)) or self._layout
        file = target.blob_file(definition, workload_uuid)
        save_tensors(file, tensors)
        return file.relative_to(target.root).as_posix()

    def get_workload_blob_tensor(self, path_str: str) -> dict[str, torch.Tensor]:
        """Read stored tensors onto the CPU; a path that leaves the root is refused."""
        return load_tensors(self.find_blob(path_str))

    def find_blob(self, path_str: str) -> Path:
        """Find a stored file in the root that holds it; a path that leaves the root is refused."""
        folders = self._folders() or [self._layout.root]
        paths = [opening.path_inside(folder, path_str) for folder in folders]
        return next((path for path in paths if path.is_file()), paths[0])


def _plain(lists: Mapping[str, Sequence[Entity]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [each.to_dict() for each in entities] for name, entities in lists.items()}


def _unused(path: Path) -> Path:
    """Number a path until nothing has it."""
    numbered = (path.with_name(f"{path.name}_{number}") for number in itertools.count(1))
    return next(each for each in itertools.chain([path], numbered) if not each.exists())
