"""`list` and `show`: what a dataset holds, in numbers that its files say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli

GOLDEN = Path(__file__).parents[2] / "golden"
DATASET, RUNS = str(GOLDEN / "dataset"), str(GOLDEN / "runs")


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def _document(*arguments: str) -> dict[str, Any]:
    result = _invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_definitions_are_listed_with_what_there_is_of_them() -> None:
    listed = _document("list", DATASET)["list"]
    gemm = next(each for each in listed["definitions"] if each["name"] == "gemm_n8")

    assert gemm["axes"] == {"rows": "var", "width": "const: 8"}
    assert gemm["inputs"]["x"] == "[rows, width] float32"
    assert (gemm["workloads"], gemm["solutions"]) == (3, 2)
    assert listed["solutions"] is None


def test_sizes_are_those_of_tensors_and_sources() -> None:
    listed = _document("list", "solution", "workloads", "--definition", "gemm_n8", DATASET)["list"]
    file = GOLDEN / "dataset/solutions/bob/gemm/gemm_n8/gemm_n8_bob.json"
    sources = json.loads(file.read_text())["sources"]
    bob = next(each for each in listed["solutions"] if each["name"] == "gemm_n8_bob")
    sizes = {each["axes"]["rows"]: each["size_bytes"] for each in listed["workloads"]}

    assert bob["size_bytes"] == sum(len(each["content"].encode()) for each in sources)
    assert all(size == 2 * rows * 8 * 4 for rows, size in sizes.items())


def test_a_definition_of_several_ranks_says_how_many() -> None:
    ranks = str(GOLDEN.parents[1] / "examples" / "several_ranks")
    name = "all_reduce_rmsnorm_h4096_ws2"

    assert _document("show", name, "--local", ranks)["shown"][0]["world_size"] == 2
    assert "world size  2 ranks, a device each" in _invoke("show", name, "--local", ranks).stdout
    assert _document("show", "gemm_n8", "--local", DATASET)["shown"][0]["world_size"] is None
    assert "world size" not in _invoke("show", "gemm_n8", "--local", DATASET).stdout


def test_a_trace_of_several_ranks_says_what_was_not_looked_at(tmp_path: Path) -> None:
    runs = shutil.copytree(RUNS, tmp_path / "runs")
    file = next(runs.glob("traces/*/*/*.jsonl"))
    trace = json.loads(file.read_text().splitlines()[0])
    ranks = {"world_size": 2, "backend": "gloo", "unchecked": ["processor_time", "precision"]}
    trace["evaluation"]["performance"]["ranks"] = ranks
    file.write_text(json.dumps(trace) + "\n")

    page = _invoke("show", f"{file}:1", "--local", str(runs)).stdout

    assert "2 over gloo, the slowest one's time" in page
    assert "not looked at  processor time, precision" in page


def test_every_trace_is_listed() -> None:
    traces = _document("list", "traces", RUNS)["list"]["traces"]
    lines = [
        line
        for file in Path(RUNS).glob("traces/*/*/*.jsonl")
        for line in file.read_text().split("\n")
    ]

    assert len(traces) == len([line for line in lines if line])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gemm_n8", "definition"),
        ("gemm_n8_bob", "solution"),
        ("gemm_n8-w1", "workload"),
    ],
)
def test_a_name_is_shown_whatever_it_is_of(name: str, kind: str) -> None:
    (shown,) = _document("show", name, DATASET)["shown"]

    assert shown["kind"] == kind
    assert name in _invoke("show", name, DATASET).stdout.splitlines()[0]


def test_a_trace_is_shown_by_the_beginning_of_its_id() -> None:
    row = _document("list", "traces", RUNS)["list"]["traces"][0]

    (shown,) = _document("show", row["trace_id"][:8], RUNS)["shown"]

    assert shown["trace"]["evaluation"]["provenance"]["trace_id"] == row["trace_id"]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("definitions/gemm/gemm_n8.json", "definition"),
        ("solutions/bob/gemm/gemm_n8/gemm_n8_bob.json", "solution"),
        ("workloads/gemm/gemm_n8.jsonl:1", "workload"),
    ],
)
def test_a_file_of_a_dataset_names_what_it_holds(file: str, kind: str) -> None:
    (shown,) = _document("show", f"{DATASET}/{file}")["shown"]

    assert shown["kind"] == kind


def test_a_line_of_a_file_of_traces_is_shown_as_its_trace() -> None:
    file = next(Path(RUNS).rglob("traces/**/*.jsonl"))
    first = json.loads(file.read_text().splitlines()[0])

    (shown,) = _document("show", f"{file}:1")["shown"]

    assert shown["trace"]["evaluation"]["provenance"] == first["evaluation"]["provenance"]


@pytest.mark.parametrize("has_provenance", [True, False], ids=["twice", "without-id"])
def test_a_line_is_shown_as_it_stands_there(tmp_path: Path, has_provenance: bool) -> None:
    """Of two lines with one id it is that one; line separators of Unicode within a log are no line ends."""
    shutil.copytree(DATASET, tmp_path / "dataset")
    trace = json.loads(next(Path(RUNS).rglob("traces/**/*.jsonl")).read_text().splitlines()[0])
    if not has_provenance:
        trace["evaluation"].pop("provenance")
    file = tmp_path / "dataset" / "traces" / "results.jsonl"
    file.parent.mkdir(exist_ok=True)
    with file.open("w") as lines:
        for log in ("first\u2028\x85", "second"):
            trace["evaluation"]["log"] = log
            lines.write(json.dumps(trace, ensure_ascii=False) + "\n")

    (shown,) = _document("show", f"{file}:2")["shown"]

    assert shown["trace"]["evaluation"]["log"] == "second"


def test_sources_are_shown_whole() -> None:
    (shown,) = _document("show", "rmsnorm_h4096_cpp", RUNS)["shown"]
    file = next(Path(RUNS).rglob("rmsnorm_h4096_cpp/kernel.cpp"))

    assert shown["sources"] == [{"path": "kernel.cpp", "content": file.read_text()}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "gemm_8", DATASET], "did you mean 'gemm_n8'?"),
        (["show", f"{DATASET}/workloads/gemm/gemm_n8.jsonl:99"], "and no line 99"),
        (["show", f"{DATASET}/workloads/gemm/gemm_n8.jsonl:0"], "has 3 lines, and no line 0"),
        (["show", f"{DATASET}/workloads/gemm/gemm_n8.jsonl"], "name one, as in FILE:LINE"),
        (["show", DATASET], "name what to show; `flashinfer-bench list` has the names"),
        (["list", "solutoins", DATASET], "did you mean 'solutions'?"),
        (["list", "--definition", "gem_n8", DATASET], "did you mean 'gemm_n8'?"),
    ],
)
def test_what_is_not_there_is_one_line(arguments: list[str], message: str) -> None:
    result = _invoke(*arguments)

    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    "line", ['"workload"', '["workload"]', "7", '{"workload": 3}', '{"name": null}']
)
def test_a_line_of_something_else_is_told_in_one_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(f"{line}\n")

    result = _invoke("show", f"{file}:1", DATASET)

    assert result.exit_code == 2, result.output
    assert result.stderr == (
        f"error: line 1 of {file} holds nothing with a name or an id that could be shown\n"
    )


def test_what_the_floats_of_a_traced_workload_were_like_is_shown(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(DATASET, tmp_path / "copy"))
    (file,) = copy.rglob("workloads/**/gemm_n8.jsonl")
    first, *others = file.read_text().splitlines()
    workload = json.loads(first)
    name = next(iter(workload["workload"]["inputs"]))
    figures = {"mean": 0.125, "std": 1.5, "largest": 60.0, "zeros": 0.5}
    workload["workload"]["observed"] = {name: figures}
    file.write_text("\n".join([json.dumps(workload), *others, ""]))
    uuid = workload["workload"]["uuid"]

    (shown,) = _document("show", uuid, str(copy))["shown"]

    assert next(each for each in shown["inputs"] if each["name"] == name)["observed"] == figures
    assert "mean 0.125, std 1.5, largest 60, zeros 50%" in _invoke("show", uuid, str(copy)).stdout
