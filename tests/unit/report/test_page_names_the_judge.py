"""A definition's page names the judge that judges it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashinfer_bench.data import TraceSet
from flashinfer_bench.report.page.site import judge_text

DATASET = Path(__file__).parents[3] / "examples" / "dataset"


@pytest.mark.parametrize(
    ("name", "judge"),
    [("rmsnorm_h4096", "elementwise"), ("top_k_sampling_from_probs_v32000", "sampling")],
)
def test_it_is_not_the_op_type(name: str, judge: str) -> None:
    definition = TraceSet.from_path(str(DATASET)).definitions[name]

    assert judge_text(definition) == judge
    assert judge_text(definition.model_copy(update={"judge": "nobody"})) == "nobody"
