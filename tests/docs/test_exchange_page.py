"""What docs/exchange.md says of columns and queries is so."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import TraceSet
from flashinfer_bench.report.exports import columns

PAGE = (Path(__file__).parents[2] / "docs" / "exchange.md").read_text()
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
GOLDEN = Path(__file__).parents[1] / "golden" / "dataset"


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "my_dataset")
    monkeypatch.chdir(tmp_path)
    arguments = ["export", "parquet", "--local", "my_dataset", "--output", "traces.parquet"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    return tmp_path / "my_dataset"


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_page_runs(query: str, dataset: Path) -> None:
    duckdb = pytest.importorskip("duckdb")

    found = duckdb.sql(query).fetchall()

    assert found, dataset


def test_the_query_for_passed_traces_counts_what_the_dataset_holds(dataset: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    passed = [row for row in TraceSet.from_path(dataset).rows() if row.is_passed]

    found = duckdb.sql(QUERIES[0]).fetchall()

    assert sum(count for _, _, count, _ in found) == len(passed)
    assert {(definition, solution) for definition, solution, _, _ in found} == {
        (row.definition, row.solution) for row in passed
    }


def test_help_describes_every_column_in_its_order() -> None:
    told = CliRunner().invoke(cli, ["export", "--help"]).output

    described = re.findall(r"^  (\w+) {2,}(\S.*)$", told.partition("Options:")[0], re.MULTILINE)

    assert described == [(each.name, each.about) for each in columns({})]
