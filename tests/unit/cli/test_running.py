"""What the jobs of a run come to, as an exit code."""

from __future__ import annotations

import pytest

from flashinfer_bench.bench.benchmark import Step
from flashinfer_bench.bench.outcomes import Skipped
from flashinfer_bench.bench.plan import Plan
from flashinfer_bench.cli.measure.running import Collected, exit_code_of
from tests.unit.bench.values import job


@pytest.mark.parametrize(
    ("skipped", "only_compiles", "code"),
    [
        (Skipped("any words", is_compiled=True), True, 0),
        (Skipped("any words", is_compiled=True), False, 4),
        (Skipped("built for nothing: nvcc is missing"), True, 4),
    ],
)
def test_skipping_what_was_compiled_is_right_where_compiling_was_asked_for(
    skipped: Skipped, only_compiles: bool, code: int
) -> None:
    collected = Collected(Plan())

    collected.add(Step(job(), skipped, None))

    assert exit_code_of(collected, only_compiles=only_compiles) == code
