"""Traces as tables: every trace, every digit, names and order that stay."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import TraceSet
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.report.exports import as_csv, as_markdown, as_parquet, chosen, columns

GOLDEN = Path(__file__).parents[2] / "golden" / "dataset"


def export(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["export", *arguments, "--local", str(GOLDEN)])


def as_in_csv(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value != value:  # noqa: PLR0124  # NaN
        return "NaN"
    if value == float("inf"):
        return "Infinity"
    return "" if value is None else str(value)


def test_csv_has_every_trace_with_every_digit() -> None:
    rows = list(TraceSet.from_path(GOLDEN).rows())

    read = list(csv.DictReader(io.StringIO(export("csv").stdout)))

    names = ("solution", "status", "latency_ms", "speedup", "max_relative_error", "interpreted")
    assert [tuple(line[name] for name in names) for line in read] == [
        tuple(as_in_csv(getattr(row, name)) for name in names) for row in rows
    ]
    assert [json.loads(line["axes"]) for line in read] == [row.axes for row in rows]


def test_the_ends_of_an_interval_are_columns() -> None:
    rows = [row for row in TraceSet.from_path(GOLDEN).rows() if row.speedup_interval]

    read = [
        line for line in csv.DictReader(io.StringIO(export("csv").stdout)) if line["speedup_low"]
    ]

    assert [(float(line["speedup_low"]), float(line["speedup_high"])) for line in read] == [
        row.speedup_interval for row in rows
    ]


def test_parquet_reads_back_as_the_same_values(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "traces.parquet"

    done = export("parquet", "--output", str(file))

    rows = list(TraceSet.from_path(GOLDEN).rows())
    read = parquet.read_table(file)
    assert done.exit_code == 0, done.stderr
    assert read.column_names == [column.name for column in columns({})]
    for name in ("solution", "latency_ms", "threads", "interpreted"):
        assert read[name].to_pylist() == [getattr(row, name) for row in rows]
    assert [dict(each) for each in read["axes"].to_pylist()] == [row.axes for row in rows]


def test_a_number_that_parquet_cannot_hold_is_an_error_with_its_column() -> None:
    pytest.importorskip("pyarrow.parquet")
    row = next(TraceSet.from_path(GOLDEN).rows())
    huge = type(row)(**{**_fields(row), "threads": 10**30})

    with pytest.raises(DatasetError, match="column 'threads' has a value that Parquet cannot hold"):
        as_parquet([huge], chosen(columns({}), ["threads"]))


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    done = export("parquet", "--output", str(tmp_path / "traces.parquet"))

    assert done.exit_code == 4
    assert "pip install 'flashinfer-bench[parquet]'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_markdown_is_a_table_whose_cells_stay_in_their_columns() -> None:
    rows = [row for row in TraceSet.from_path(GOLDEN).rows() if row.solution == "gemm_n8_bob"]
    hostile = [type(row)(**{**_fields(row), "solution": "a|b\n<i>"}) for row in rows]

    text = as_markdown(hostile, chosen(columns({}), ["solution", "status"])).decode()

    head, rule, *body = text.splitlines()
    assert (head, rule) == ("| solution | status |", "| --- | --- |")
    assert body[0] == "| a\\|b &lt;i> | PASSED |"
    assert len(body) == len(rows)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("gemm_n8_v2", "gemm_n8_v2"),
        ("_a_ __b__", r"\_a\_ \_\_b\_\_"),
        ("![x](http://y)", r"!\[x\](http://y)"),
        ("*a* `b` ~~c~~", r"\*a\* \`b\` \~\~c\~\~"),
        ("&amp; & &#64;", "&amp;amp; & &amp;#64;"),
        ("a\\|b", r"a\\\|b"),
    ],
)
def test_a_name_is_no_markup_in_markdown(name: str, written: str) -> None:
    row = next(TraceSet.from_path(GOLDEN).rows())
    named = type(row)(**{**_fields(row), "run_label": name})

    text = as_markdown([named], chosen(columns({}), ["run_label"])).decode()

    assert text.splitlines()[2] == f"| {written} |"


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@a", "\t=1", "\n=1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe_and_a_warning(
    label: str, tmp_path: Path
) -> None:
    dataset = Path(shutil.copytree(GOLDEN, tmp_path / "dataset"))
    file = next((dataset / "traces").rglob("gemm_n8.jsonl"))
    line = json.loads(file.read_text().splitlines()[0])
    line["solution"] = label
    line["evaluation"].pop("provenance", None)
    file.write_text(json.dumps(line) + "\n")

    done = CliRunner().invoke(
        cli, ["export", "csv", "--local", str(dataset), "--columns", "solution"]
    )

    assert f"1 text would be a formula in a spreadsheet, such as {label!r}" in done.stderr
    assert [f"'{label}"] in list(csv.reader(io.StringIO(done.stdout, newline="")))
    assert "formula" not in export("csv").stderr


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a\u202egnp.exe", "a⟦U+202E⟧gnp.exe"),
        ("\x1b[31mred\x9b", "⟦U+001B⟧[31mred⟦U+009B⟧"),
        ("ze\u200bro\u200f\u2066", "ze⟦U+200B⟧ro⟦U+200F⟧⟦U+2066⟧"),
        ("größe 矩阵 🚀", "größe 矩阵 🚀"),
    ],
)
def test_what_cannot_be_seen_is_shown_in_csv_and_kept_in_parquet(name: str, written: str) -> None:
    row = next(TraceSet.from_path(GOLDEN).rows())
    named = type(row)(**{**_fields(row), "run_label": name, "libs": {name: "1"}})

    text = as_csv([named], chosen(columns({}), ["run_label", "libs"])).decode()

    [_, line] = csv.reader(io.StringIO(text))
    assert line[0] == written
    assert "\u202e" not in text
    parquet = pytest.importorskip("pyarrow.parquet", reason="reading Parquet needs pyarrow")
    read = parquet.read_table(
        io.BytesIO(as_parquet([named], chosen(columns({}), ["run_label"])))
    ).to_pylist()
    assert read == [{"run_label": name}]


def test_a_column_is_named_once() -> None:
    done = export("csv", "--columns", "solution", "solution")

    assert done.exit_code == 2
    assert "column 'solution' is named twice" in done.stderr


def test_columns_are_written_in_the_order_asked_for() -> None:
    done = export("csv", "--columns", "status", "definition")

    assert done.stdout.splitlines()[0] == "status,definition"


def test_an_unknown_column_suggests_the_nearest() -> None:
    done = export("csv", "--columns", "latency")

    assert done.exit_code == 2
    assert "did you mean 'latency_ms'?" in done.stderr


def test_a_text_with_commas_quotes_and_lines_stays_one_cell() -> None:
    row = next(TraceSet.from_path(GOLDEN).rows())
    named = type(row)(**{**_fields(row), "run_label": 'a, "b"\nc'})

    written = as_csv([named], chosen(columns({}), ["run_label", "status"])).decode()

    assert list(csv.reader(io.StringIO(written, newline="")))[1] == ['a, "b"\nc', row.status]


def test_json_has_the_same_columns() -> None:
    document = json.loads(export("csv", "--json", "--columns", "solution", "axes").stdout)

    assert document["columns"] == ["solution", "axes"]
    assert document["rows"][0] == {"solution": "gelu_h8_alice", "axes": {"rows": 4}}


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
