"""Judge a decomposition in the form in which agents publish them: whether its files are the original, put together.

Nobody calls anybody there: each file is a model of its own, and a tree says what belongs to what, or nothing does.
So each file is looked for in what the original does, level by level, and run there with the original's weights.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.model_file import load_model_file
from flashinfer_bench.decompose.verify import CannotJudgeError
from flashinfer_bench.decompose.verify.constants import unequal_attributes
from flashinfer_bench.decompose.verify.cover import (
    Claim,
    Flow,
    coverage,
    describe,
    kernels_in,
)
from flashinfer_bench.decompose.verify.executed import counted, run_tests
from flashinfer_bench.decompose.verify.findings import StageResult, VerifyReport, Violation, joined
from flashinfer_bench.decompose.verify.layout import (
    FOLDERS,
    TREE,
    DecompositionFolder,
)
from flashinfer_bench.decompose.verify.originals import UNWATCHED, OriginalRun, run_original
from flashinfer_bench.decompose.verify.published.by_values import Closest, ValuePlacing
from flashinfer_bench.decompose.verify.published.components import (
    Component,
    check_component,
    load_component,
    piece_files,
    stated_source,
)
from flashinfer_bench.decompose.verify.published.executing import (
    FileModels,
    OriginalValues,
    PlacedRuns,
    wanted_values,
)
from flashinfer_bench.decompose.verify.published.own_tree import containment, own_tree
from flashinfer_bench.decompose.verify.published.placing import (
    ALTERED,
    EXACT,
    FilePlace,
    Placing,
    place_again,
    place_level,
)
from flashinfer_bench.decompose.verify.published.stated import StatedTree, stated_tree
from flashinfer_bench.decompose.verify.published.tree_faults import tree_faults
from flashinfer_bench.decompose.verify.reporting import report_of
from flashinfer_bench.decompose.verify.rules import (
    COMPOSITION,
    COVERAGE,
    FILES,
    GRAPH,
    LAYOUT,
    SEEDS,
    SHADOW,
    found,
)
from flashinfer_bench.decompose.verify.shrink import needed_bytes
from flashinfer_bench.decompose.verify.sources import Draws
from flashinfer_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import torch

    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.findings import VerifyRequest

_KERNELS = 0
_MOST_NAMED = 12
_GIB = 1 << 30


class _Schema(msgspec.Struct):
    schema_version: str


def is_published(folder: Path) -> bool:
    """Whether a folder has files by level, and no tree in this program's own schema."""
    if not any((folder / level).is_dir() for level in FOLDERS):
        return False
    try:
        msgspec.json.decode((folder / TREE).read_bytes(), type=_Schema)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return True
    return False


@dataclass(frozen=True)
class _Subject:
    """The original of a published decomposition, followed on meta."""

    source: ModelSource
    plain: OriginalRun
    flow: Flow


def verify_published(request: VerifyRequest, source: ModelSource | None) -> VerifyReport:
    """Judge a published decomposition; raises `CannotJudgeError` where nothing can be said."""
    started = time.monotonic()
    folder = request.folder
    files = piece_files(folder)
    if not files:
        raise CannotJudgeError(folder, "the folders of its levels hold no Python file")
    stated = stated_tree(folder)
    subject, notes = _original(request, source, files, stated)
    loaded = [load_component(folder, path) for path in files]
    components = [each for each in loaded if isinstance(each, Component)]
    unread = [each for each in loaded if isinstance(each, Violation)]
    places, strays = _placed(subject, components)
    layout = own_tree(request.folder, subject.source.name, components, places)
    standing = {each.component.label for each in places}
    within = containment(components, places)
    said, faults = tree_faults(folder, stated, components, within, standing)
    layout_words = f"{len(files)} files; {said}"
    result = joined(
        StageResult((*faults, *unread, *strays), notes, {LAYOUT: layout_words}, allows_opaque=True),
        _check_files(request, subject, components, places),
        _check_coverage(subject, layout, components, places),
        _check_seeds(request, subject, places),
    )
    return report_of(request, layout, result, started)


# -- the original


def _original(
    request: VerifyRequest, given: ModelSource | None, files: Sequence[Path], stated: StatedTree
) -> tuple[_Subject, tuple[str, ...]]:
    folder, source = request.folder, given
    notes: tuple[str, ...] = ()
    try:
        if source is None:
            path = _original_file(folder, files, stated)
            notes = (f"the original is {path}",)
            source = load_model_file(path)
        plain = run_original(source, Draws(0), "meta")
    except CannotJudgeError:
        raise
    except BenchError as error:
        raise CannotJudgeError(folder, f"the original does not run: {error}") from None
    if plain.trace.front_end in UNWATCHED:
        why = "; ".join(plain.trace.notes)
        raise CannotJudgeError(
            folder, f"the original cannot be followed operation by operation: {why}"
        )
    needed, limit = needed_bytes(plain.trace), request.memory_limit_bytes
    if limit is not None and needed > limit:
        said = f"it needs about {needed / _GIB:.1f} GiB, and has {limit / _GIB:.1f}: raise --memory-limit"
        raise CannotJudgeError(folder, said)
    return _Subject(source, plain, Flow(plain.trace)), notes


def _original_file(folder: Path, files: Sequence[Path], stated: StatedTree) -> Path:
    """Find the original: beside the files, else where tree and files say that it lies."""
    beside = folder / "original.py"
    if beside.is_file():
        return beside
    sources = [stated.source, *map(stated_source, reversed(files))]
    named = dict.fromkeys(each for each in sources if each)
    for each in named:
        for above in (folder.resolve(), *folder.resolve().parents):
            if (above / each).is_file():
                return above / each
    where = f" ({', '.join(list(named)[:2])} is nowhere above the folder)" if named else ""
    raise CannotJudgeError(
        folder, f"the original model is not there{where}: name its file with --model"
    )


# -- places


def _placed(
    subject: _Subject, components: Sequence[Component]
) -> tuple[list[FilePlace], list[Violation]]:
    """Place the files of each level; what cannot be placed is a finding."""
    placing = Placing(subject.flow)
    by_values = _Unplaced(subject)
    places: list[FilePlace] = []
    strays: list[Violation] = []
    for level in range(len(FOLDERS)):
        own = [each for each in components if each.level == level and each.work]
        taken: set[int] = set()
        found_here, left = place_level(placing, own, taken)
        for component in left:
            place = by_values.place(component, taken)
            if isinstance(place, FilePlace):
                taken |= place.claimed
                found_here.append(place)
            else:
                strays.append(_stray(placing, component, found_here, place))
        again = {e.component.label: e.component for e in found_here if e.match == EXACT}
        found_here += place_again(placing, list(again.values()), taken)
        places += found_here
    return places, strays


@dataclass
class _Unplaced:
    """Looks for files by their numbers; the original runs once, if there are such files."""

    subject: _Subject
    _placing: ValuePlacing | None = None

    def place(self, component: Component, taken: set[int]) -> FilePlace | Closest | None:
        """Find a place, or what is closest."""
        if self._placing is None:
            wanted = frozenset(self.subject.plain.trace.values)
            _, values = _run(self.subject, 0, wanted)
            self._placing = ValuePlacing(self.subject.flow, values.kept, FileModels())
        return self._placing.place(component, taken)


def _stray(
    placing: Placing, component: Component, others: Iterable[FilePlace], closest: object
) -> Violation:
    """Say why a file stands nowhere: another has its place, or it computes something else."""
    node = component.file.node
    place = placing.place(component, frozenset(), EXACT)
    if place is not None:
        rivals = [each.component.label for each in others if each.claimed & place.claimed]
        where = describe(placing.flow.trace.op(min(place.claimed)))
        said = f"it is not needed: {rivals[0] if rivals else 'another file'} stands for {where}"
        return found("LAY-stray", component.label, said, node=node.id)
    works = ", ".join(
        dict.fromkeys(component.trace.op(op).fn.rpartition(".")[2] for op in component.work[:6])
    )
    said = f"it computes nothing ({works}) that the original computes and no other file stands for"
    if isinstance(closest, Closest):
        said += f"; closest is {closest.operation}, a relative error of {closest.error:.1e}"
    return found("SHADOW-differs", component.label, said, node=node.id)


# -- what holds


def _check_files(
    request: VerifyRequest,
    subject: _Subject,
    components: Sequence[Component],
    places: Sequence[FilePlace],
) -> StageResult:
    findings = [each for component in components for each in check_component(component)]
    tested = (
        StageResult()
        if request.quick
        else run_tests([each.file for each in components], request.memory_limit_bytes)
    )
    findings += [
        fault for each in components if not each.work for fault in _moving_faults(subject, each)
    ]
    for place in {each.component.label: each for each in reversed(places)}.values():
        findings += _size_faults(subject, place)
    done = counted(tested.executed) or "their tests not run (quick)"
    sizes = f"{len(components)} files, at their own sizes; {done}"
    details = {FILES: sizes, GRAPH: "each file's operations, and whether it calls what it imports"}
    return joined(StageResult(tuple(findings), details=details), tested)


def _moving_faults(subject: _Subject, component: Component) -> Iterator[Violation]:
    """Find files that move data only, of a shape that the original never has."""
    met = {each.shape for each in subject.plain.trace.values.values()}
    own = component.trace
    for value in (*own.inputs, *own.outputs):
        shape = own.values[value].shape
        if shape not in met:
            said = f"it moves data of shape {list(shape)}, which no tensor of the original has"
            yield found("FILE-sizes", component.label, said, node=component.file.node.id)


def _size_faults(subject: _Subject, place: FilePlace) -> Iterator[Violation]:
    """Find inputs and weights of a file that have other sizes than the original's at its place."""
    if place.by_values or place.match == EXACT:
        return
    component, theirs = place.component, subject.plain.trace.values
    own = component.trace.values
    weights = {each.name: value for value, each in own.items() if each.kind in ("param", "buffer")}
    pairs = [(own[mine].name, own[mine], value) for mine, value in place.inputs.items() if value]
    pairs += [(name, own[weights[name]], value) for name, value in place.weights.items()]
    for name, mine, value in pairs:
        if mine.shape != theirs[value].shape:
            said = (
                f"{name} is {mine.dtype}{list(mine.shape)}; "
                f"in the original's run it is {theirs[value].dtype}{list(theirs[value].shape)}"
            )
            node = component.file.node
            yield found("FILE-sizes", component.label, said, node=node.id, tensor=name)


def _check_coverage(
    subject: _Subject,
    layout: DecompositionFolder,
    components: Sequence[Component],
    places: Sequence[FilePlace],
) -> StageResult:
    """Find operations of the original that no kernel's file stands for, and kernels that are several."""
    flow, kernels = subject.flow, [each for each in places if each.component.level == _KERNELS]
    claims = [
        Claim(
            msgspec.structs.replace(each.component.file.node, opaque="published as one kernel"),
            "",
            each.claimed,
        )
        for each in kernels
    ]
    counted, _ = coverage(flow, claims, layout.root)
    missing = sorted(flow.work - {op for each in kernels for op in each.claimed})
    findings = [_missing(flow, op, places, components) for op in missing[:_MOST_NAMED]]
    if len(missing) > _MOST_NAMED:
        said = f"{len(missing) - _MOST_NAMED} further operations are in no kernel"
        findings.append(found("COVER-missing", layout.root.file, said))
    findings += kernels_in(flow, decompose_trace(subject.plain.trace, None), claims)
    notes = []
    if not any(each.claimed >= flow.work for each in places):
        notes.append("no file is the whole model")
    words = f"{len(flow.work)} operations that compute: {len(flow.work) - len(missing)} in kernels"
    return StageResult(tuple(findings), tuple(notes), {COVERAGE: words}, coverage=counted)


def _missing(
    flow: Flow, op: int, places: Sequence[FilePlace], components: Sequence[Component]
) -> Violation:
    holding = [each for each in places if op in each.claimed]
    parent = min(holding, key=lambda each: each.component.level, default=None)
    file = parent.component.label if parent else components[0].label if components else TREE
    which = f", which {file} holds" if parent else ""
    said = f"no kernel's file computes {describe(flow.trace.op(op))}{which}"
    return found("COVER-missing", file, said)


def _check_seeds(
    request: VerifyRequest,
    subject: _Subject,
    places: Sequence[FilePlace],
) -> StageResult:
    """Run each file at its places, and the kernels one after another, with several draws."""
    results: list[StageResult] = []
    kernels = [each for each in places if each.component.level == _KERNELS]
    covered = {op for each in kernels for op in each.claimed} >= subject.flow.work
    differing: set[str] = set()
    runs: Counter[str] = Counter()
    models = FileModels()
    for seed in range(request.seeds):
        original, values = _run(subject, seed, wanted_values(places))
        placed = PlacedRuns(subject.plain.trace, values, values.draws, models)
        for place in places:
            placed.check(place)
        if covered:
            placed.composed(kernels, original, _given(original))
        differing |= placed.differing
        runs.update(placed.done)
        results.append(StageResult(tuple(placed.findings), tolerated=tuple(placed.tolerated)))
    details = {
        SHADOW: f"{runs.total()} runs of {len(runs)} files on the original's own tensors",
        SEEDS: f"{request.seeds} seeds, weights moved away from their defaults",
    }
    if covered:
        details[COMPOSITION] = f"{len(kernels)} calls of kernels, one after another"
    notes = () if covered else ("not put together: operations of the original are in no kernel",)
    faults = tuple(_attribute_faults(subject, places, differing))
    calls = {label: count // request.seeds for label, count in runs.items()}
    whole = StageResult(faults, (*notes, *_assumed(places)), details, calls=calls)
    return joined(*results, whole)


def _run(
    subject: _Subject, seed: int, wanted: frozenset[str] | set[str]
) -> tuple[OriginalRun, OriginalValues]:
    """Run the original with one draw of weights and inputs, and keep some of its values."""
    draws = Draws(seed)
    values = OriginalValues(wanted, draws)
    run = run_original(subject.source, draws, "cpu", like=subject.plain, also=values, marking=False)
    for value, each in (*_given(run).items(), *zip(run.trace.outputs, run.outputs, strict=False)):
        values.keep(value, each)
    return run, values


def _given(run: OriginalRun) -> dict[str, torch.Tensor]:
    """What a run was given: inputs, weights and constants, by value."""
    held = {
        value.id: run.weights[value.name]
        for value in run.trace.values.values()
        if value.kind not in ("input", "inter") and value.name in run.weights
    }
    return {**dict(zip(run.trace.inputs, run.inputs, strict=False)), **held}


def _attribute_faults(
    subject: _Subject, places: Iterable[FilePlace], differing: set[str]
) -> Iterator[Violation]:
    """Name constants that are not the original's, where that changes a bit."""
    for place in places:
        label = place.component.label
        if place.match == ALTERED and label in differing:
            trace, own = subject.plain.trace, place.component.trace
            pairs = [(own.op(mine), trace.op(theirs)) for mine, theirs in place.ops.items()]
            for said in unequal_attributes(pairs):
                yield found("FILE-constant", label, said, node=place.component.file.node.id)


def _assumed(places: Sequence[FilePlace]) -> Iterator[str]:
    """Say how weights came into the files, and what else was taken for granted."""
    by_place = sum(len(each.weights) for each in places if not each.by_values)
    by_shape = sum(len(each.weights) for each in places if each.by_values)
    if by_place:
        yield (
            f"assumed: {by_place} weights of files are those that the original reads in the same operations"
        )
    if by_shape:
        yield f"assumed: {by_shape} weights of files by name, else by shape in order"
    for label in dict.fromkeys(each.component.label for each in places if each.by_values):
        yield f"{label} is written with other operations; it was found by its numbers"
    yield "assumed: files run in the mode in which they are built, as the original does"
