"""A definition's page names the judge that judges it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli
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


def test_the_page_has_it_and_says_what_a_speedup_is(tmp_path: Path) -> None:
    recorded = DATASET.parents[1] / "docs" / "recorded"
    local = ["--local", str(DATASET), "--local", str(recorded)]

    done = CliRunner().invoke(cli, ["report", "html", str(tmp_path / "site"), *local])

    page = (tmp_path / "site" / "definitions" / "rmsnorm_h4096.html").read_text(encoding="utf-8")
    assert done.exit_code == 0, done.output
    assert "<dt>judge</dt><dd>elementwise</dd>" in page
    assert "it is not the quotient of the two. Its interval knows one pair of processes." in page
    assert "( ): 95% interval within one pair of processes" in page
