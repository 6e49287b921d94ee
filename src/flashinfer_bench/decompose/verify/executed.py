"""The tests that a decomposition's files bring, executed."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.decompose.verify.files import attempt
from flashinfer_bench.decompose.verify.findings import StageResult, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from flashinfer_bench.decompose.verify.files import NodeFile
    from flashinfer_bench.decompose.verify.findings import Executed

_COPIES = 8
"""How often a test holds what its file is given and makes."""
_MOST_BYTES = 1 << 30
"""Of what one test is given: what is larger is left out, and counted."""


def run_tests(files: Iterable[NodeFile], limit_bytes: int | None) -> StageResult:
    """Run the test that each file brings; those without one, and those too large for memory, are counted and named."""
    findings: list[Violation] = []
    left_out: list[str] = []
    counts: Counter[str] = Counter()
    for file in files:
        test = getattr(file.module, "run_tests", None)
        if not callable(test) or not _fits(file, limit_bytes):
            counts["too large" if callable(test) else "without one"] += 1
            left_out.append(file.label)
            continue
        counts["run"] += 1
        with torch.random.fork_rng(devices=[]):
            made = attempt(partial(_passed, test), file.path, file.label, "FILE-test", file.node.id)
        if isinstance(made, Violation):
            findings.append(made)
    notes = named("without a test that fits into memory", left_out)
    return StageResult(tuple(findings), notes, executed={"tests": dict(counts)})


def _passed(test: Callable[[], object]) -> None:
    """Run a test; one that returns false instead of raising has said why on the way."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        is_passed = test() is not False
    if not is_passed:
        lines = [line.strip() for line in said.getvalue().splitlines() if "FAIL" in line]
        raise AssertionError(lines[0] if lines else "run_tests() returns False")


def _fits(file: NodeFile, limit_bytes: int | None) -> bool:
    try:
        given = file.inputs("meta")
    except Exception:  # noqa: BLE001  # the test itself says what is wrong
        return True
    size = sum(each.numel() * each.itemsize for each in given if isinstance(each, torch.Tensor))
    return size <= _MOST_BYTES and (limit_bytes is None or size * _COPIES <= limit_bytes)


def named(what: str, left_out: Sequence[str]) -> tuple[str, ...]:
    """Name what was left out, in a note; none where nothing was."""
    return (f"{what}: {', '.join(left_out)}",) if left_out else ()


def counted(executed: Executed) -> str:
    """Say how many of something fared how."""
    said = {
        what: ", ".join(f"{count} {how}" for how, count in counts.items() if count)
        for what, counts in executed.items()
    }
    return "; ".join(f"{what}: {words}" for what, words in said.items() if words)
