"""The stages of a verification: layout, files, graph, coverage, shadow, composition, seeds.

It runs the given code: only in a process of its own.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.capture import export_counts
from flashinfer_bench.decompose.classes import TABLE, key
from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.model_errors import is_full
from flashinfer_bench.decompose.model_file import ModelObject, ModelSource, load_model_file
from flashinfer_bench.decompose.verify import TooBigError
from flashinfer_bench.decompose.verify.comparing import check_sizes, compare
from flashinfer_bench.decompose.verify.definitions import check_definitions
from flashinfer_bench.decompose.verify.executed import counted, run_tests
from flashinfer_bench.decompose.verify.files import (
    LoadedDecomposition,
    NodeFile,
    load,
    load_files,
)
from flashinfer_bench.decompose.verify.findings import (
    StageResult,
    VerifyReport,
    Violation,
    joined,
)
from flashinfer_bench.decompose.verify.graph import check_file
from flashinfer_bench.decompose.verify.layout import DecompositionFolder, read_layout
from flashinfer_bench.decompose.verify.originals import VerifiedModel, on_path, run_original
from flashinfer_bench.decompose.verify.published.verdict import is_published, verify_published
from flashinfer_bench.decompose.verify.reporting import report_of
from flashinfer_bench.decompose.verify.rules import COVERAGE, FILES, GRAPH, LAYOUT, SEEDS, found
from flashinfer_bench.decompose.verify.shrink import shrunk
from flashinfer_bench.decompose.verify.sources import Draws
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flashinfer_bench.decompose.ir import OpTrace
    from flashinfer_bench.decompose.verify.findings import Coverage, VerifyRequest


def verify_folder(request: VerifyRequest) -> VerifyReport:
    """Verify a decomposition stage by stage; where memory ends, again on a smaller copy."""
    try:
        return _verified(request)
    except Exception as error:
        if request.quick or not is_full(error):
            raise
    gc.collect()
    try:
        report = _verified(replace(request, quick=True))
    except Exception as error:
        if is_full(error):
            said = "too big for the memory it is given, on a smaller copy too; raise --memory-limit"
            raise TooBigError(f"{request.folder}: {said}") from None
        raise
    note = "memory ended at the sizes of the files, so this was found on a smaller copy"
    return replace(report, notes=(*report.notes, note))


def _verified(request: VerifyRequest) -> VerifyReport:
    """Verify stage by stage; one that cannot be reached is `not run`."""
    started = time.monotonic()
    if is_published(request.folder):
        source = load_model_file(request.model) if request.model else request.source
        return verify_published(request, source)
    layout = read_layout(request.folder)
    if isinstance(layout, list):
        unread = StageResult(tuple(layout), details={LAYOUT: "the tree cannot be read"})
        return report_of(request, None, unread, started)
    source = request.source
    if request.model:
        source = load_model_file(request.model, run_as=layout.tree.metadata.run_as)
    files, faults = load_files(layout)
    words = f"{len(layout.nodes)} nodes in {len(files)} files"
    result = StageResult((*layout.findings, *faults), details={LAYOUT: words})
    if len(files) == len(layout.nodes):
        result = joined(result, _check_pieces(request, source, layout, files))
    return report_of(request, layout, result, started)


def _check_pieces(
    request: VerifyRequest,
    source: ModelSource | None,
    layout: DecompositionFolder,
    files: Mapping[str, NodeFile],
) -> StageResult:
    checked, pieces = _check_files(request, layout, files)
    codes = {each.code for each in checked.findings}
    if "FILE-writes" in codes:
        note = "not compared with the original: a file writes into its inputs"
        return joined(checked, StageResult(notes=(note,)))
    compared = _check_against_original(request, source, pieces)
    if not compared.stopped_on:
        return joined(checked, compared)
    if compared.shrunk and request.quick:
        note = "not on a smaller copy: a file does not run on smaller sizes"
        whole = _check_against_original(replace(request, quick=False), source, pieces)
        return joined(checked, whole, StageResult(notes=(note,)))
    if compared.shrunk and "FILE-fails" not in codes:
        raise TooBigError(_too_big(request.folder, compared))
    note = "a file failed, so what it is part of could not be compared"
    return joined(checked, compared, StageResult(notes=(note,)))


def _check_files(
    request: VerifyRequest, layout: DecompositionFolder, files: Mapping[str, NodeFile]
) -> tuple[StageResult, LoadedDecomposition]:
    findings: list[Violation] = []
    loaded: list[NodeFile] = []
    for file in files.values():
        is_root = file.node.id == layout.tree.root
        findings += check_file(file, files, file.label, is_root=is_root)
    for node, path in layout.steps():
        label = path.relative_to(layout.folder).as_posix()
        step = load(node, path, label=label)
        if isinstance(step, Violation):
            findings.append(step)
            continue
        loaded.append(step)
        if path.name == "refactored.py":
            is_root = node.id == layout.tree.root
            findings += check_file(step, files, label, is_root=is_root)
    defined, definitions = check_definitions(
        layout, may_change=request.may_change, tries_wrong=not request.quick
    )
    parents = sum(not node.is_leaf for node in layout.tree.nodes)
    tested = (
        StageResult() if request.quick else run_tests(files.values(), request.memory_limit_bytes)
    )
    done = counted({**tested.executed, **defined.executed})
    sizes = f"{len(files)} files, {len(loaded)} of steps and {len(definitions)} definitions, at their own sizes"
    details = {
        FILES: f"{sizes}; {done or 'their tests and wrong kernels not run (quick)'}",
        GRAPH: f"what {parents} parents do themselves",
    }
    steps: dict[str, list[NodeFile]] = {}
    for each in (*loaded, *definitions):
        steps.setdefault(each.node.id, []).append(each)
    result = joined(tested, defined, StageResult(tuple(findings), details=details))
    return result, LoadedDecomposition(layout, files, steps)


def _check_against_original(
    request: VerifyRequest, given: ModelSource | None, pieces: LoadedDecomposition
) -> StageResult:
    source, findings = (given, ()) if given else _original(pieces.layout)
    # What needs values is not moved to real weights here: it was captured as it is.
    run = run_original(source, Draws(0), "meta", moving=False)
    tree = decompose_trace(run.trace, request.overrides and request.overrides.without_kernels())
    small = shrunk(source, run.trace, request.memory_limit_bytes, is_quick=request.quick)
    results = [StageResult(findings, shrunk=small.words if small else None)]
    if small is not None:
        sized = check_sizes(pieces, run)
        results.append(sized)
        if sized.stopped_on:
            return joined(*results)
        source, run = small, run_original(small, Draws(0), "meta", moving=False)
    words, lacking = (
        _compare_exports(source, run.trace, pieces.root)
        if request.exports and not request.quick
        else ("", ())
    )
    results.append(StageResult(lacking))
    plain = VerifiedModel(source, run, tree, is_sized=small is None)
    compared = _check_seeds(request.seeds, pieces, plain)
    if compared.coverage:
        results.append(StageResult(details={COVERAGE: _covered(compared.coverage, words)}))
    return joined(*results, compared)


def _check_seeds(seeds: int, pieces: LoadedDecomposition, plain: VerifiedModel) -> StageResult:
    results: list[StageResult] = []
    reached: Counter[str] = Counter()
    for seed in range(seeds):
        subject = on_path(plain, seed)
        if subject is None:
            note = f"seed {seed} left out: the original takes another path with it"
            results.append(StageResult(notes=(note,)))
            continue
        is_first = not any(each.coverage for each in results)
        result = compare(pieces, subject, seed, is_first=is_first)
        results.append(result)
        if result.stopped_on:
            return joined(*results)
        reached["moved away from" if subject.is_moved else "at"] += 1
    if reached:
        words = f"{reached.total()} seeds, weights {' or '.join(reached)} their defaults"
        results.append(StageResult(details={SEEDS: words}))
    return joined(*results)


def _covered(counted: Coverage, exported: str) -> str:
    return (
        f"{counted.operations} operations: {counted.in_leaves} in kernels, {counted.plumbing} plumbing, "
        f"{counted.dropped} side effects or dead" + (f"; {exported}" if exported else "")
    )


def _too_big(folder: Path, result: StageResult) -> str:
    said = next(each.message for each in result.findings if each.code == "FILE-fails")
    if result.stopped_on == "meta":
        return (
            f"{folder}: too big for the memory it is given, and a file does not run on meta, where sizes are compared "
            f"without memory: {said}; raise --memory-limit"
        )
    return (
        f"{folder}: too big for the memory it is given, and its files do not run on a smaller batch "
        f"({result.shrunk}): {said}; raise --memory-limit, or write sizes as `x.shape[0]`"
    )


def _original(layout: DecompositionFolder) -> tuple[ModelSource, tuple[Violation, ...]]:
    given = layout.tree.metadata.original
    path = layout.folder / (given.file if given else "original.py")
    if not path.is_file():
        raise UsageError(
            f"{layout.folder} holds no {path.name}: put the model's file there, or name it with --model FILE"
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    is_other = given is not None and given.sha256 not in (None, digest)
    said = "its bytes are not those that the tree was made from"
    findings = (found("LAY-tree", path.name, said),) if is_other else ()
    return load_model_file(path, run_as=layout.tree.metadata.run_as), findings


_MOST_OPERATIONS = 400
"""Export takes about ten milliseconds for each."""
_PLUMBING = frozenset({
    "copy", "fill", "_assert_tensor_metadata", "_assert_async", "lift_fresh_copy", "slice_scatter", "select_scatter",
    "zero", "setitem", "index_put", "slice", "as_strided_scatter", "diagonal_scatter",
    "numpy_T", "matrix_H", "mT", "mH",
})  # fmt: skip
"""What writing in place becomes or came from, besides views and factories."""


def _compare_exports(
    source: ModelSource, trace: OpTrace, root: NodeFile
) -> tuple[str, tuple[Violation, ...]]:
    """Say how the counts compare, and find operations that the pieces lack."""
    if len(trace.ops) > _MOST_OPERATIONS:
        return "", ()
    theirs = export_counts(source)
    ours = export_counts(ModelObject(root.build(), tuple(root.inputs("meta")), root.node.id))
    if theirs is None or ours is None:
        return "torch.export cannot follow it", ()
    lacking = _work(theirs) - _work(ours) - _dropped(trace)
    if not lacking:
        return f"torch.export sees the same {_work(theirs).total()}", ()
    return "torch.export sees more", tuple(_findings(root, lacking))


def _work(counts: Mapping[str, int]) -> Counter[str]:
    work: Counter[str] = Counter()
    for name, count in counts.items():
        short = key(f"torch.ops.aten.{name}.default")
        if TABLE.get(short) not in ("VIEW", "GEN", "CAST") and short not in _PLUMBING:
            work[short] += count
    return work


def _dropped(trace: OpTrace) -> Counter[str]:
    return Counter(key(each.fn) for each in trace.dropped)


def _findings(root: NodeFile, lacking: Mapping[str, int]) -> Iterator[Violation]:
    for name, count in lacking.items():
        said = f"the original has {count} more of {name} than the pieces"
        yield found("COVER-export", root.label, said, severity="warning", node=root.node.id)
