"""docs/reports.md shows what the commands say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli
from flashinfer_bench.report.scores.names import parse_score

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "reports.md").read_text()
RECORDED = [
    file.read_text() for file in (REPOSITORY / "tests" / "golden" / "recorded").glob("*.txt")
]
SCORES = re.findall(r"^\| `([^`]+)`(?:, `([^`]+)`)?", PAGE.split("## Scores")[1], re.MULTILINE)


@pytest.mark.parametrize(
    "shown", re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
)
def test_output_is_what_was_recorded(shown: str) -> None:
    assert shown in RECORDED


@pytest.mark.parametrize("name", [name for pair in SCORES for name in pair if name])
def test_every_score_of_the_table_can_be_asked_for(name: str) -> None:
    assert parse_score(name.replace("P", "1").replace("K", "2")).family


def test_every_score_that_help_names_is_explained() -> None:
    said = CliRunner().invoke(cli, ["report", "summary", "--help"]).output
    named = re.search(r"Rank by (.*?); docs", " ".join(said.split()))

    assert named is not None
    families = {pair[0].split(">")[0].split("@")[0] for pair in SCORES}
    assert all(family in named[1] for family in families)
