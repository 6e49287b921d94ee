"""A model is taken apart: captured, grouped, written, verified, and told about."""

from __future__ import annotations

import json
import resource
import time
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.files import write_whole
from flashinfer_bench.decompose.capture import Captured, capture
from flashinfer_bench.decompose.emit.tree_json import counts
from flashinfer_bench.decompose.emit.write import WrittenDataset, probed, write_pieces
from flashinfer_bench.decompose.grouping import check_tree, decompose_trace, load_overrides
from flashinfer_bench.decompose.ir import LEVELS, SCHEMA_VERSION
from flashinfer_bench.decompose.model_file import (
    ModelFile,
    ModelObject,
    ModelSource,
    load_model_file,
)
from flashinfer_bench.decompose.pieces import Pieces, find_pieces
from flashinfer_bench.decompose.serving import is_of_transformers
from flashinfer_bench.decompose.tree_text import tree_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import nn

    from flashinfer_bench.decompose.grouping import Overrides
    from flashinfer_bench.decompose.ir import Level, Node, OpTrace
    from flashinfer_bench.decompose.process import DecomposeRequest
    from flashinfer_bench.decompose.verify.findings import VerifyReport

VERIFICATION = "verification/summary.json"
"""What the verification that ends `decompose` found, below the decomposition's folder."""
_IN_EVAL = "read in evaluation mode, as models of transformers are served; --train reads it in training mode"
_PASSING = {"folder", "elapsed_s"}


@dataclass(frozen=True)
class Decomposition:
    """A model in pieces: what ran, and the tree over it. `print` draws the tree."""

    source: ModelSource
    captured: Captured
    tree: Node
    overrides: Overrides | None = None
    """What was grouped otherwise than by rule."""

    @property
    def trace(self) -> OpTrace:
        """What one forward call did."""
        return self.captured.trace

    @cached_property
    def pieces(self) -> Pieces:
        """Equal parts of the tree, each once, with its instances."""
        return find_pieces(probed(self.source, self.trace), self.tree)

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """By level: how many different `nodes`, and how many `instances` of them."""
        return counts(self.pieces)

    def write(
        self, directory: Path | str, *, levels: Collection[Level] = LEVELS[:1]
    ) -> WrittenDataset:
        """Write files, tests and a dataset into a folder; an earlier decomposition there is replaced.

        Pieces of `levels` become definitions. Raises `UsageError` for a folder that holds something else.
        """
        return write_pieces(self.source, self.pieces, Path(directory), levels)

    def verify(self, directory: Path | str, *, seeds: int = 2) -> VerifyReport:
        """Verify what was written into a folder against this module, with its weights moved on a copy."""
        from flashinfer_bench.decompose.verify import verify_directory  # noqa: PLC0415

        return verify_directory(
            directory, seeds=seeds, source=self.source, overrides=self.overrides
        )

    def __str__(self) -> str:
        """Draw the tree."""
        identities = {
            instance.node.id: piece.identity
            for piece in self.pieces.all
            for instance in piece.instances
        }
        return "\n".join(tree_text(self.trace, self.tree, identities))


def decompose(
    module: nn.Module,
    example_inputs: Any,
    *,
    name: str = "model",
    overrides: Path | str | None = None,
) -> Decomposition:
    """Take a module apart by what it does with these inputs; neither is changed.

    `example_inputs`: what forward takes, a tensor, a sequence in order or a mapping by name. `overrides`: a file that
    changes the grouping. Raises `UsageError` where forward raises or cannot be followed.
    """
    return take_apart(ModelObject(module, example_inputs, name), _overrides(overrides))


def take_apart(source: ModelSource, overrides: Overrides | None = None) -> Decomposition:
    """Capture a model and group what it did; nothing is written."""
    captured = _with_note(source, capture(source))
    tree = decompose_trace(captured.trace, overrides)
    check_tree(captured.trace, tree)
    return Decomposition(source, captured, tree, overrides)


def _with_note(source: ModelSource, captured: Captured) -> Captured:
    """Say which mode was chosen for a model that did not say it."""
    is_chosen = isinstance(source, ModelFile) and source.run_as.mode is None
    if not is_chosen or not is_of_transformers(captured.model):
        return captured
    trace = replace(captured.trace, notes=(_IN_EVAL, *captured.trace.notes))
    return replace(captured, trace=trace)


def decompose_file(request: DecomposeRequest) -> dict[str, Any]:
    """Do all of it for one file, and say in plain data what came of it."""
    began_s = time.process_time()
    source = load_model_file(request.file, run_as=request.run_as)
    found = take_apart(source, _overrides(request.overrides))
    written = found.write(request.directory, levels=request.levels)
    seconds = time.process_time() - began_s
    verified, why_not = (
        _verified(request, found.overrides) if request.is_verified else (None, "--no-verify")
    )
    return _report(request, found, written, verified) | {
        "not_verified_because": why_not,
        "cpu_seconds": round(seconds, 3),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _overrides(path: Path | str | None) -> Overrides | None:
    return None if path is None else load_overrides(Path(path))


def _verified(
    request: DecomposeRequest, overrides: Overrides | None
) -> tuple[VerifyReport | None, str | None]:
    from flashinfer_bench.decompose.verify import TooBigError, verify_directory  # noqa: PLC0415

    try:
        report = verify_directory(
            request.directory,
            seeds=request.seeds,
            memory_limit_bytes=request.memory_limit_bytes,
            overrides=overrides,
            may_change=True,
        )
    except TooBigError as error:
        return None, str(error)
    _keep(report, request.directory)
    return report, None


def _keep(report: VerifyReport, directory: Path) -> None:
    """Leave with the pieces what the verification found: no place and no time, so the bytes are the same each time."""
    found = {key: value for key, value in asdict(report).items() if key not in _PASSING}
    text = json.dumps({"schema_version": SCHEMA_VERSION, **found}, indent=1, ensure_ascii=False)
    write_whole(directory / VERIFICATION, text.encode() + b"\n")


def _executed(verified: VerifyReport) -> str:
    """Say how many files, tests, wrong kernels and workloads were looked at, and what came of them."""
    return next(each.detail for each in verified.rungs if each.name == "files")


def _report(
    request: DecomposeRequest,
    found: Decomposition,
    written: WrittenDataset,
    verified: VerifyReport | None,
) -> dict[str, Any]:
    trace = found.trace
    coverage = verified.coverage if verified else None
    return {
        "model": trace.model,
        "file": str(request.file),
        "directory": str(written.directory),
        "classified": found.tree.level,
        "counts": {level: dict(each) for level, each in written.counts.items()},
        "operations": coverage.operations if coverage else len(trace.ops),
        "coverage": coverage.share if coverage else 1.0,
        "verified": "skipped" if verified is None else "pass" if verified.passed else "fail",
        "equality": verified.equality if verified else "",
        "executed": _executed(verified) if verified else "",
        "executed_counts": verified.executed if verified else {},
        "findings": [asdict(each) for each in verified.findings] if verified else [],
        "shrunk": verified.shrunk if verified else None,
        "front_end": trace.front_end,
        "specialisations": list(trace.specialisations),
        "notes": list(dict.fromkeys((*trace.notes, *(verified.notes if verified else ())))),
        "tree": str(found).splitlines(),
        "files": sorted([*written.files, *([VERIFICATION] if verified else [])]),
        "definitions": list(written.definitions),
        "left_out": [list(each) for each in written.left_out],
    }
