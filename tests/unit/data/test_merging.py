"""Several datasets become one: nothing twice, nothing silently contradicted, nothing half written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import Solution, TraceSet, load_json_file, unpack
from flashinfer_bench.data.appending import new_folder
from flashinfer_bench.errors import StorageError

NAN = '"max_relative_error":NaN'
GOLDEN = Path(__file__).parents[2] / "golden" / "dataset"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "first"))


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "second"))


def merge(output: Path, *datasets: Path, options: tuple[str, ...] = ()) -> Result:
    arguments = ["report", "merge", *map(str, datasets), "--output", str(output), *options]
    return CliRunner().invoke(cli, arguments)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def lines_below(root: Path) -> list[str]:
    return sorted(
        line for file in root.rglob("*json*") for line in file.read_text().splitlines() if line
    )


def test_one_dataset_merged_with_itself_is_itself(
    first: Path, second: Path, tmp_path: Path
) -> None:
    done = merge(tmp_path / "out", first, second, options=("--json",))

    counts = json.loads(done.stdout)["merge"]
    merged, before = TraceSet.from_path(tmp_path / "out"), TraceSet.from_path(first)
    assert merged.to_dict() == before.to_dict()
    assert counts["taken"] == counts["duplicates"]
    assert counts["taken"]["trace"] > 0


def test_traces_and_samples_stay_as_they_were_recorded(first: Path, tmp_path: Path) -> None:
    merge(tmp_path / "out", first)

    assert lines_below(tmp_path / "out" / "traces") == lines_below(first / "traces")


def test_what_only_one_dataset_holds_is_taken(first: Path, second: Path, tmp_path: Path) -> None:
    removed = sorted((first / "definitions").iterdir())[0].name
    for folder in [path for path in first.rglob(removed) if path.is_dir()]:
        shutil.rmtree(folder)

    merge(tmp_path / "out", first, second)

    merged, whole = TraceSet.from_path(tmp_path / "out"), TraceSet.from_path(second)
    assert len(TraceSet.from_path(first).definitions) < len(whole.definitions)
    assert merged.definitions == whole.definitions
    assert len(list(merged.rows())) == len(list(whole.rows()))


def test_a_conflict_names_both_files_and_writes_nothing(
    first: Path, second: Path, tmp_path: Path
) -> None:
    file = next((second / "definitions").rglob("*.json"))
    edit(file, '"op_type"', '"description": "another one", "op_type"')

    done = merge(tmp_path / "out", first, second)

    assert done.exit_code == 2
    assert str(file) in done.stderr
    assert str(first / file.relative_to(second)) in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_keeping_the_first_leaves_out_results_of_the_other_version(
    first: Path, second: Path, tmp_path: Path
) -> None:
    measured = next(row.solution for row in TraceSet.from_path(second).rows())
    file = next((second / "solutions").rglob(f"{measured}.json"))
    solution = json.loads(file.read_text())
    edit(
        file, solution["sources"][0]["content"][:4], "#\\n" + solution["sources"][0]["content"][:4]
    )
    shutil.rmtree(first / "traces")

    done = merge(tmp_path / "out", first, second, options=("--on-conflict", "keep-first", "--json"))

    merged = TraceSet.from_path(tmp_path / "out")
    kept = merged.get_solution(solution["name"])
    of_second = [
        row for row in TraceSet.from_path(second).rows() if row.solution == solution["name"]
    ]
    assert kept == TraceSet.from_path(first).get_solution(solution["name"])
    assert of_second
    assert not [row for row in merged.rows() if row.solution == solution["name"]]
    assert json.loads(done.stdout)["merge"]["left_out"]["trace"] == len(of_second)
    assert f"kept {first}" in done.stderr


def test_blobs_are_copied_and_other_content_under_their_name_is_a_conflict(
    first: Path, second: Path, tmp_path: Path
) -> None:
    for root, content in ((first, b"one"), (second, b"two")):
        (root / "blob" / "workloads").mkdir(parents=True)
        (root / "blob" / "workloads" / "x.safetensors").write_bytes(content)

    alone = merge(tmp_path / "alone", first)
    together = merge(tmp_path / "together", first, second)

    assert alone.exit_code == 0
    copied = tmp_path / "alone" / "blob" / "workloads" / "x.safetensors"
    assert copied.read_bytes() == b"one"
    assert together.exit_code == 2
    assert "blob 'blob/workloads/x.safetensors'" in together.stderr


def test_a_workload_whose_blob_was_not_kept_is_not_kept_either(
    first: Path, second: Path, tmp_path: Path
) -> None:
    path = "blob/workloads/x.safetensors"
    file = next((second / "workloads").rglob("*.jsonl"))
    line = json.loads(file.read_text().splitlines()[0])
    name = next(iter(line["workload"]["inputs"]))
    line["workload"]["inputs"][name] = {"type": "safetensors", "path": path, "tensor_key": "x"}
    line["workload"]["uuid"] = "stored"
    file.write_text(json.dumps(line) + "\n")
    for root, content in ((first, b"one"), (second, b"two")):
        (root / "blob" / "workloads").mkdir(parents=True)
        (root / path).write_bytes(content)

    merge(tmp_path / "out", first, second, options=("--on-conflict", "keep-first"))

    merged = TraceSet.from_path(tmp_path / "out")
    uuids = {each.workload.uuid for traces in merged.workloads.values() for each in traces}
    assert uuids
    assert "stored" not in uuids


def test_a_solution_folder_stays_a_folder(first: Path, tmp_path: Path) -> None:
    file = next((first / "solutions").rglob("*.json"))
    name = json.loads(file.read_text())["name"]
    unpack(load_json_file(Solution, file), file.with_suffix(""))
    file.unlink()

    merge(tmp_path / "out", first)

    assert (tmp_path / "out" / file.relative_to(first).with_suffix("") / "solution.toml").is_file()
    assert TraceSet.from_path(tmp_path / "out").get_solution(name) == (
        TraceSet.from_path(first).get_solution(name)
    )


def test_a_folder_that_holds_something_is_refused(first: Path, tmp_path: Path) -> None:
    done = merge(first, first)

    assert done.exit_code == 2
    assert "new or empty" in done.stderr
    assert lines_below(first) == lines_below(GOLDEN)


def test_what_cannot_be_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    def begin_and_fail() -> None:
        with new_folder(tmp_path / "out") as draft:
            (draft / "half").write_text("x")
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        begin_and_fail()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("inside", ["merged", "traces/merged", "definitions/more/merged"])
def test_an_output_within_a_dataset_that_is_merged_is_refused(
    first: Path, second: Path, inside: str
) -> None:
    done = merge(second / inside, first, second)

    assert done.exit_code == 2
    assert "name a folder outside" in done.stderr
    assert lines_below(second) == lines_below(GOLDEN)


def test_numbers_that_are_none_are_read_however_they_are_written(
    first: Path, second: Path, tmp_path: Path
) -> None:
    for root in (first, second):
        edit(next((root / "traces").rglob("gemm_n8.jsonl")), '"max_relative_error":0.0', NAN)

    done = merge(tmp_path / "out", first, second, options=("--json",))

    counts = json.loads(done.stdout)["merge"]
    assert counts["conflicts"] == []
    assert counts["taken"]["trace"] == counts["duplicates"]["trace"]
    assert lines_below(tmp_path / "out" / "traces") == lines_below(first / "traces")


def test_hidden_files_among_blobs_are_no_conflict(
    first: Path, second: Path, tmp_path: Path
) -> None:
    for root, content in ((first, "one"), (second, "two")):
        (root / "blob").mkdir()
        (root / "blob" / ".DS_Store").write_text(content)

    done = merge(tmp_path / "out", first, second)

    assert done.exit_code == 0
    assert not (tmp_path / "out" / "blob").exists()


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("blob/x.safetensors", 0, "is not there, and "),
        ("/etc/hostname", 3, "path '/etc/hostname' leaves the dataset"),
        ("../../x", 3, "path '../../x' leaves the dataset"),
    ],
)
def test_a_file_that_is_not_there_is_named_with_its_workload(
    second: Path, tmp_path: Path, path: str, code: int, words: str
) -> None:
    file = next((second / "workloads").rglob("*.jsonl"))
    line = json.loads(file.read_text().splitlines()[0])
    name = next(iter(line["workload"]["inputs"]))
    line["workload"]["inputs"][name] = {"type": "safetensors", "path": path, "tensor_key": "x"}
    line["workload"]["uuid"] = "stored"
    file.write_text(json.dumps(line) + "\n")

    done = merge(tmp_path / "out", second)

    assert done.exit_code == code
    assert words in done.stderr
    assert f"{file}:1" in done.stderr


def test_a_conflict_within_a_file_names_both_lines(second: Path, tmp_path: Path) -> None:
    file = next((second / "workloads").rglob("*.jsonl"))
    whole = file.read_text()
    line = json.loads(whole.splitlines()[0])
    line["workload"]["size_class"] = "full"
    file.write_text(f"{whole}{json.dumps(line)}\n")

    done = merge(tmp_path / "out", second)

    assert done.exit_code == 2
    assert f"{file}:1 and {file}:{len(whole.splitlines()) + 1}" in done.stderr


def test_a_folder_that_is_not_there_is_named_as_it_was_given(first: Path, tmp_path: Path) -> None:
    done = merge(tmp_path / "out", first, tmp_path / "nope")

    assert done.exit_code == 2
    assert done.stderr == f"error: {tmp_path / 'nope'}: no such folder\n"


@pytest.mark.parametrize("key", ["solution", "evaluation"])
def test_a_line_that_is_no_trace_is_named(first: Path, tmp_path: Path, key: str) -> None:
    file = next((first / "traces").rglob("gemm_n8.jsonl"))
    line = json.loads(file.read_text().splitlines()[0])
    del line[key]
    file.write_text(json.dumps(line) + "\n")

    done = merge(tmp_path / "out", first)

    assert done.exit_code == 3
    assert done.stderr == f"error: {file}:1: is no trace: it has no {key}\n"


def test_a_workload_that_was_traced_twice_is_one_whatever_its_floats_were_like(
    first: Path, second: Path, tmp_path: Path
) -> None:
    seen = (
        '"observed":{{"x":{{"mean":{},"std":1.0,"largest":4.0,"zeros":0.0}}}},"uuid":"gelu_h8-w1"'
    )
    for number, root in enumerate((first, second)):
        (file,) = root.rglob("workloads/**/gelu_h8.jsonl")
        edit(file, '"uuid":"gelu_h8-w1"', seen.format(number))

    done = merge(tmp_path / "out", first, second)

    assert done.exit_code == 0, done.stderr
    (line,) = (each for each in lines_below(tmp_path / "out") if "observed" in each)
    assert json.loads(line)["workload"]["observed"]["x"]["mean"] == 0
