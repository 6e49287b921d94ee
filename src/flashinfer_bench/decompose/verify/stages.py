"""The stages of a verification: layout, files, graph, coverage, shadow, composition, seeds.

It runs the given code: only in a process of its own.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.capture import export_counts
from flashinfer_bench.decompose.classes import TABLE, key
from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.model_file import ModelObject, ModelSource, load_model_file
from flashinfer_bench.decompose.verify import TooBigError
from flashinfer_bench.decompose.verify.comparing import check_sizes, compare
from flashinfer_bench.decompose.verify.definitions import check_definitions
from flashinfer_bench.decompose.verify.files import NodeFile, load, load_files
from flashinfer_bench.decompose.verify.findings import Rung, Verification, VerifyReport, Violation
from flashinfer_bench.decompose.verify.graph import check_file
from flashinfer_bench.decompose.verify.layout import DecompositionFolder, read_layout
from flashinfer_bench.decompose.verify.originals import VerifiedModel, on_path, run_original
from flashinfer_bench.decompose.verify.recompose import StoppedError
from flashinfer_bench.decompose.verify.rules import RULES, RUNGS, found
from flashinfer_bench.decompose.verify.shrink import shrunk
from flashinfer_bench.decompose.verify.sources import Draws
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flashinfer_bench.decompose.grouping import Overrides
    from flashinfer_bench.decompose.ir import OpTrace


SEEDS = 2


def verify_folder(
    folder: Path,
    *,
    seeds: int = SEEDS,
    model: Path | None = None,
    source: ModelSource | None = None,
    memory_limit_bytes: int | None = None,
    allow_opaque: bool = False,
    overrides: Overrides | None = None,
    exports: bool = True,
) -> VerifyReport:
    """Verify a decomposition stage by stage; one that cannot be reached is `not run`."""
    started = time.monotonic()
    original = load_model_file(model) if model else source
    verification = Verification(folder, seeds, original, memory_limit_bytes)
    verification.exports, verification.overrides = exports, overrides
    verification.allows_opaque = allow_opaque or overrides is not None
    layout = read_layout(folder)
    if isinstance(layout, list):
        verification.report_all(layout)
        verification.details[RUNGS[0]] = "the tree cannot be read"
        return _assembled(verification, None, started)
    verification.report_all(layout.findings)
    files, faults = load_files(layout)
    verification.report_all(faults)
    verification.details["layout"] = f"{len(layout.nodes)} nodes in {len(files)} files"
    if len(files) == len(layout.nodes):
        _check_files(verification, layout, files)
        if any(each.code == "FILE-writes" for each in verification.findings):
            verification.notes.append(
                "not compared with the original: a file writes into its inputs"
            )
        else:
            _check_against_original(verification, layout, files)
    return _assembled(verification, layout, started)


def _check_files(
    verification: Verification, layout: DecompositionFolder, files: dict[str, NodeFile]
) -> None:
    for file in files.values():
        is_root = file.node.id == layout.tree.root
        verification.report_all(check_file(file, files, file.label, is_root=is_root))
    for node, path in layout.steps():
        label = path.relative_to(layout.folder).as_posix()
        step = load(node, path, label=label)
        if isinstance(step, Violation):
            verification.report(step)
            continue
        verification.steps.setdefault(node.id, []).append(step)
        if path.name == "refactored.py":
            is_root = node.id == layout.tree.root
            verification.report_all(check_file(step, files, label, is_root=is_root))
    steps = sum(map(len, verification.steps.values()))
    verification.report_all(check_definitions(layout, verification.steps, verification.notes))
    definitions = sum(map(len, verification.steps.values())) - steps
    parents = sum(not node.is_leaf for node in layout.tree.nodes)
    verification.details["files"] = (
        f"{len(files)} files, {steps} of steps and {definitions} definitions, at their own sizes"
    )
    verification.details["graph"] = f"what {parents} parents do themselves"


def _check_against_original(
    verification: Verification, layout: DecompositionFolder, files: dict[str, NodeFile]
) -> None:
    source = verification.source or _original(verification, layout)
    run = run_original(source, Draws(0), "meta")
    tree = decompose_trace(
        run.trace, verification.overrides and verification.overrides.without_kernels()
    )
    small = shrunk(source, run.trace, verification.memory_limit_bytes)
    if small is not None:
        verification.shrunk = small.words
        check_sizes(verification, files, files[layout.tree.root], run)
        source, run = small, run_original(small, Draws(0), "meta")
    _check_exports(verification, files[layout.tree.root], source, run.trace)
    _check_seeds(
        verification, layout, files, VerifiedModel(source, run, tree, is_sized=small is None)
    )


def _check_exports(
    verification: Verification, root: NodeFile, source: ModelSource, trace: OpTrace
) -> None:
    if not verification.exports:
        return
    words, findings = _compare_exports(source, trace, root)
    verification.exported = words
    verification.report_all(findings)


def _check_seeds(
    verification: Verification,
    layout: DecompositionFolder,
    files: dict[str, NodeFile],
    plain: VerifiedModel,
) -> None:
    reached = []
    for seed in range(verification.seeds):
        subject = on_path(plain, seed)
        if subject is None:
            verification.notes.append(
                f"seed {seed} left out: the original takes another path with it"
            )
            continue
        try:
            compare(verification, layout, files, subject, seed)
        except StoppedError:
            if verification.shrunk is not None:
                raise TooBigError(_too_big(verification)) from None
            verification.notes.append("a file failed, so what it is part of could not be compared")
            return
        reached.append("moved away from" if subject.is_moved else "at")
        verification.is_compared = True
    if reached:
        words = " or ".join(dict.fromkeys(reached))
        verification.details["seeds"] = f"{len(reached)} seeds, weights {words} their defaults"


def _too_big(verification: Verification) -> str:
    said = next(each.message for each in verification.findings if each.code == "FILE-fails")
    return (
        f"{verification.folder}: too big for the memory it is given, and its files do not run on a smaller batch "
        f"({verification.shrunk}): {said}; raise --memory-limit, or write sizes as `x.shape[0]`"
    )


def _original(verification: Verification, layout: DecompositionFolder) -> ModelSource:
    given = layout.tree.metadata.original
    path = layout.folder / (given.file if given else "original.py")
    if not path.is_file():
        raise UsageError(
            f"{layout.folder} holds no {path.name}: put the model's file there, or name it with --model FILE"
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if given and given.sha256 not in (None, digest):
        said = "its bytes are not those that the tree was made from"
        verification.report(found("LAY-tree", path.name, said))
    return load_model_file(path)


def _assembled(
    verification: Verification, layout: DecompositionFolder | None, started: float
) -> VerifyReport:
    counts = Counter(
        RULES[each.code].rung for each in verification.findings if each.severity == "error"
    )
    rungs = tuple(
        Rung(
            name,
            "fail" if counts[name] else "pass" if name in verification.details else "not run",
            verification.details.get(name, ""),
        )
        for name in RUNGS
    )
    complete = all(each.verdict == "pass" for each in rungs)
    equality = (
        "bit-equal"
        if not verification.worst
        else f"within tolerance (at most {verification.worst:.1e}: {verification.worst_at})"
    )
    leaves = {node.id for node in layout.tree.nodes if node.is_leaf} if layout else set()
    return VerifyReport(
        model=(layout.tree.metadata.model or layout.tree.root) if layout else "",
        folder=str(verification.folder),
        passed=complete and not verification.has_failed,
        rungs=rungs,
        findings=tuple(verification.findings),
        seeds=verification.seeds,
        equality=equality if verification.is_compared and not verification.has_failed else "",
        coverage=verification.coverage,
        nodes=len(layout.nodes) if layout else 0,
        leaf_calls=sum(count for name, count in verification.calls.items() if name in leaves),
        shrunk=verification.shrunk,
        notes=tuple(dict.fromkeys(verification.notes)),
        elapsed_s=time.monotonic() - started,
    )


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
) -> tuple[str, list[Violation]]:
    """Say how the counts compare, and find operations that the pieces lack."""
    if len(trace.ops) > _MOST_OPERATIONS:
        return "", []
    theirs = export_counts(source)
    ours = export_counts(ModelObject(root.build(), tuple(root.inputs("meta")), root.node.id))
    if theirs is None or ours is None:
        return "torch.export cannot follow it", []
    lacking = _work(theirs) - _work(ours) - _dropped(trace)
    if not lacking:
        return f"torch.export sees the same {_work(theirs).total()}", []
    return "torch.export sees more", list(_findings(root, lacking))


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
