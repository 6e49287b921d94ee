"""Datasets to other readers of FlashInfer Trace and back: nothing is lost on the way, and nothing silently."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import Solution, TraceSet, load_json_file, unpack

GOLDEN = Path(__file__).parents[2] / "golden" / "dataset"
BUNDLED = Path(__file__).parents[3] / "examples" / "dataset"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "dataset"))


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def export(dataset: Path, output: Path) -> Result:
    return call("export", "flashinfer-trace", "--local", dataset, "--output", output)


@pytest.mark.parametrize("source", [GOLDEN, BUNDLED], ids=["recorded", "bundled"])
def test_a_dataset_exported_and_imported_is_the_same(source: Path, tmp_path: Path) -> None:
    export(source, tmp_path / "out")
    call("import", "flashinfer-trace", tmp_path / "out", "--output", tmp_path / "back")

    before, after = TraceSet.from_path(source), TraceSet.from_path(tmp_path / "back")
    assert after.definitions == before.definitions
    assert _by_name(after) == {
        name: each
        for name, each in _by_name(before).items()
        if each.spec.prepare is None and each.spec.plan is None
    }
    assert after.to_dict()["workload"] == before.to_dict()["workload"]
    assert after.to_dict()["traces"] == before.to_dict()["traces"]
    assert _blobs(tmp_path / "back") == _blobs(source)


def test_what_was_written_once_stays_to_the_byte(tmp_path: Path) -> None:
    export(BUNDLED, tmp_path / "out")
    call("import", "flashinfer-trace", tmp_path / "out", "--output", tmp_path / "back")
    export(tmp_path / "back", tmp_path / "again")

    assert _files(tmp_path / "back") == _files(tmp_path / "out")
    assert _files(tmp_path / "again") == _files(tmp_path / "out")


def test_a_solution_folder_is_exported_as_json(dataset: Path, tmp_path: Path) -> None:
    file = next((dataset / "solutions").rglob("*.json"))
    solution = load_json_file(Solution, file)
    unpack(solution, file.with_suffix(""))
    file.unlink()

    export(dataset, tmp_path / "out")

    assert not list((tmp_path / "out").rglob("solution.toml"))
    written = next((tmp_path / "out" / "solutions").rglob(f"{solution.name}.json"))
    assert load_json_file(Solution, written) == solution


def test_what_others_would_run_wrongly_is_left_out_and_named(dataset: Path, tmp_path: Path) -> None:
    name = next(row.solution for row in TraceSet.from_path(dataset).rows())
    file = next((dataset / "solutions").rglob(f"{name}.json"))
    content = json.loads(file.read_text())
    content["sources"].append({"path": "empty.py", "content": ""})
    file.write_text(json.dumps(content))

    done = export(dataset, tmp_path / "out")

    exported = TraceSet.from_path(tmp_path / "out")
    assert f"solution {name} was left out: source 'empty.py' is empty" in done.stderr
    assert exported.get_solution(name) is None
    assert name not in {row.solution for row in exported.rows()}
    assert list(exported.rows())


def test_an_axis_that_follows_from_others_keeps_its_definition_here(
    dataset: Path, tmp_path: Path
) -> None:
    file = next((dataset / "definitions").rglob("gemm_n8.json"))
    content = json.loads(file.read_text())
    content["axes"]["twice"] = {"type": "expr", "expression": f"2 * {next(iter(content['axes']))}"}
    file.write_text(json.dumps(content))

    done = export(dataset, tmp_path / "out")

    exported = TraceSet.from_path(tmp_path / "out")
    assert "definition gemm_n8 was left out: axis 'twice' follows from others" in done.stderr
    assert "gemm_n8" not in exported.definitions
    assert not exported.solutions.get("gemm_n8")
    assert not list(exported.rows("gemm_n8"))


def test_workloads_among_traces_are_imported_to_where_they_belong(
    dataset: Path, tmp_path: Path
) -> None:
    expected = TraceSet.from_path(dataset).to_dict()["workload"]
    for file in (dataset / "workloads").rglob("*.jsonl"):
        shutil.move(file, dataset / "traces" / f"{file.stem}_workloads.jsonl")

    call("import", "flashinfer-trace", dataset, "--output", tmp_path / "out")

    assert TraceSet.from_path(tmp_path / "out").to_dict()["workload"] == expected
    assert {file.stem for file in (tmp_path / "out" / "workloads").rglob("*.jsonl")} == set(
        expected
    )
    assert not list((tmp_path / "out" / "traces").rglob("*_workloads.jsonl"))


@pytest.mark.parametrize(
    "command", [["export", "flashinfer-trace", "--local"], ["import", "flashinfer-trace"]]
)
def test_a_dataset_is_not_written_into_the_one_it_comes_from(
    dataset: Path, command: list[str]
) -> None:
    done = call(*command, dataset, "--output", dataset / "traces" / "tidy")

    assert done.exit_code == 2
    assert "name a folder outside" in done.stderr


def _files(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def _by_name(trace_set: TraceSet) -> dict[str, Solution]:
    return {each.name: each for lists in trace_set.solutions.values() for each in lists}


def _blobs(root: Path) -> dict[str, bytes]:
    blob = root / "blob"
    return {
        path.relative_to(blob).as_posix(): path.read_bytes()
        for path in blob.rglob("*")
        if path.is_file()
    }
