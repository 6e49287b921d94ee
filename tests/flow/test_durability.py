"""Nothing finished is lost and nothing is repeated: kills, interrupts, full disks, two runs at once."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from flashinfer_bench.data import SupportedLanguages
from tests.commands import call
from tests.flow.kernels import HONEST, slow, solution, wait_for, write_dataset

SIZES = (100, 200, 300, 400)
QUICK = [
    "--warmup-runs",
    "1",
    "--iterations",
    "5",
    "--num-trials",
    "1",
    "--threads",
    "1",
    "--device",
    "cpu",
]


def command(root: Path, *options: str) -> list[str]:
    """The real command line, quick and on the CPU."""
    return [sys.executable, "-m", "flashinfer_bench", *words(root, *options)]


def words(root: Path, *options: str) -> list[str]:
    return ["run", "--local", str(root), *QUICK, *options]


def start(root: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(root, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return call(*words(root, *options))


def recorded(root: Path) -> list[dict[str, object]]:
    """Every trace line on disk, each of which must be whole."""
    files = sorted((root / "traces").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def keys(root: Path) -> list[tuple[str, int]]:
    return [(line["solution"], line["workload"]["axes"]["n"]) for line in recorded(root)]


def descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def test_a_killed_parent_loses_at_most_the_job_in_flight_and_resume_finishes_the_rest(
    tmp_path: Path,
) -> None:
    root = write_dataset(tmp_path / "ds", slow("first"), slow("second"), sizes=SIZES)
    running = start(root)
    wait_for(lambda: len(recorded(root)) >= 3)
    workers = descendants(running.pid)

    running.send_signal(signal.SIGKILL)
    running.communicate()
    survived = keys(root)
    resumed = run(root, "--resume")

    assert len(survived) >= 3
    assert workers
    wait_for(lambda: not any(worker.is_running() for worker in workers), 5.0)
    assert resumed.returncode == 0, resumed.stderr
    everything = keys(root)
    assert set(survived) <= set(everything)
    assert sorted(everything) == sorted(
        (name, size) for name in ("first", "second") for size in SIZES
    )


def test_resume_repeats_what_was_changed_or_failed_and_is_asked_for_and_nothing_else(
    tmp_path: Path,
) -> None:
    """In between, a power cut tears a line: it is set aside, and the run goes on."""
    bad = solution("def run(x):\n    return x\n", name="bad")
    root = write_dataset(tmp_path / "ds", solution(HONEST, name="mine"), bad, sizes=SIZES)
    first = run(root)
    before = keys(root)

    again = run(root, "--resume")
    untouched = keys(root)
    write_dataset(root, solution("def run(x):\n    return 1 + x\n", name="mine"), sizes=SIZES)
    (file,) = (root / "traces").rglob("*.jsonl")
    with file.open("a") as torn:
        torn.write('{"definition":"increment","workl')
    changed = run(root, "--resume")
    added = keys(root)
    retried = run(root, "--resume", "--retry-failed")

    assert (first.returncode, again.returncode) == (1, 1), again.stderr
    count = len(SIZES)
    assert f"0 of 0 jobs passed, {2 * count} done before ({count} of them failed)" in again.stdout
    assert f"{count} recorded failures stand: bad ({count} workloads)\n" in again.stdout
    assert len(before) == 2 * len(SIZES)
    assert untouched == before
    assert changed.returncode == 1, changed.stderr
    assert list(file.parent.glob("*.torn"))
    assert sorted(added) == sorted([*before, *(("mine", size) for size in SIZES)])
    assert retried.returncode == 1, retried.stderr
    assert sorted(keys(root)) == sorted([*added, *(("bad", size) for size in SIZES)])


@pytest.mark.full  # two whole runs; test_pipeline has a second run beside the first
def test_two_runs_take_turns_on_one_device_and_both_sets_of_traces_survive(tmp_path: Path) -> None:
    noted = tmp_path / "calls"
    noting = f"""
    import os, time
    def run(x):
        started = time.monotonic_ns()
        y = x + 1
        time.sleep(0.002)
        with open({str(noted)!r}, "a") as file:
            file.write(f"{{started}} {{time.monotonic_ns()}} {{os.getpid()}}\\n")
        return y
    """
    root = write_dataset(
        tmp_path / "ds",
        solution(noting, name="first"),
        solution(noting, name="second"),
        sizes=SIZES,
    )

    options = ("--no-profile-baseline", "--sandbox", "off")  # the notes lie outside of it
    pair = [start(root, "--solutions", name, *options) for name in ("first", "second")]
    outputs = [running.communicate(timeout=120) for running in pair]

    assert [running.returncode for running in pair] == [0, 0], outputs
    assert sorted(keys(root)) == sorted(
        (name, size) for name in ("first", "second") for size in SIZES
    )
    calls = sorted(tuple(map(int, line.split())) for line in noted.read_text().splitlines())
    overlapping = [(one, two) for one, two in itertools.pairwise(calls) if two[0] < one[1]]
    assert len({pid for _, _, pid in calls}) == 2
    assert not overlapping


@pytest.mark.full
def test_a_full_disk_ends_the_run_with_one_message_and_keeps_earlier_traces(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", solution(HONEST, name="mine"), sizes=tuple(range(1, 40)))
    small = tmp_path / "small"
    small.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(small)]
    if shutil.which("mount") is None or subprocess.run(mounting, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        done = run(root, "--output", str(small))
        kept = recorded(small)
    finally:
        subprocess.run(["umount", str(small)], check=True)

    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert str(small) in done.stderr
    assert 0 < len(kept) < 39


@pytest.mark.full
def test_a_read_only_dataset_is_refused_with_the_remedy_and_works_with_output(
    tmp_path: Path,
) -> None:
    root = write_dataset(tmp_path / "ds", solution(HONEST, name="mine"))
    mounting = ["mount", "--bind", "-o", "ro", str(root), str(root)]
    if shutil.which("mount") is None or subprocess.run(mounting, check=False).returncode != 0:
        pytest.skip("nothing can be mounted read-only here")
    try:
        refused = run(root)
        written = run(root, "--output", str(tmp_path / "out"))
    finally:
        subprocess.run(["umount", str(root)], check=True)

    assert refused.returncode == 2, refused.stderr
    assert "--output" in refused.stderr
    assert written.returncode == 0, written.stderr
    assert len(recorded(tmp_path / "out")) == 1
    assert not (root / "traces").exists()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--solutions", "mnie"], 2, "did you mean 'mine'"),
        pytest.param(
            ["--definitions", "incremnt"], 2, "did you mean 'increment'", marks=pytest.mark.full
        ),
        (["--device", "cuda:9"], 2, "cuda:9"),
        pytest.param(["--device", "tpu"], 2, "tpu", marks=pytest.mark.full),
        (["--iterations", "0"], 2, "iterations"),
    ],
)
def test_a_mistyped_option_is_one_clear_message(
    tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    root = write_dataset(tmp_path / "ds", solution(HONEST, name="mine"))

    done = run(root, *options)

    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", solution(HONEST, name="mine"))
    broken = root / "definitions" / "elementwise" / "broken.json"
    broken.write_text('{"name": "x",\n "op_type": }')

    done = run(root)

    assert done.returncode == 3, done.stderr
    assert "broken.json:2" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_a_broken_reference_is_the_datasets_fault_and_the_rest_goes_on(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", solution(HONEST, name="mine"))
    other = json.loads((root / "definitions" / "elementwise" / "increment.json").read_text())
    other |= {"name": "broken", "reference": "def run(x):\n    raise RuntimeError('oops')\n"}
    (root / "definitions" / "elementwise" / "broken.json").write_text(json.dumps(other))
    theirs = solution(HONEST, name="theirs", definition="broken")
    place = root / "solutions" / "tester" / "elementwise" / "broken" / "theirs.json"
    place.parent.mkdir(parents=True)
    place.write_text(theirs.model_dump_json())
    workload = (root / "workloads" / "elementwise" / "increment.jsonl").read_text()
    (root / "workloads" / "elementwise" / "broken.jsonl").write_text(
        workload.replace('"increment"', '"broken"')
    )

    done = run(root)

    assert done.returncode == 3, done.stderr
    assert "  RuntimeError: oops\n" in done.stdout
    assert "flashinfer_bench/" not in done.stdout.partition("Faults of the dataset")[2]
    assert [line["solution"] for line in recorded(root)] == ["mine"]
    said = run(root, "--json", "--resume").stderr
    (line,) = [line for line in said.splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: the dataset is at fault: broken [")
    assert line.endswith("]: the reference raised: RuntimeError: oops")


@pytest.mark.full
def test_a_missing_compiler_skips_the_solution_and_says_how_to_get_one(tmp_path: Path) -> None:
    source = "#include <tvm/ffi/tvm_ffi.h>\n"
    mine = solution(HONEST, name="mine")
    compiled = mine.model_copy(
        update={
            "name": "compiled",
            "spec": mine.spec.model_copy(
                update={"language": SupportedLanguages.CPP, "entry_point": "k.cpp::run"}
            ),
            "sources": [mine.sources[0].model_copy(update={"path": "k.cpp", "content": source})],
        }
    )
    root = write_dataset(tmp_path / "ds", mine, compiled)
    bare = tmp_path / "bin"
    bare.mkdir()
    git = shutil.which("git")
    if git is not None:
        (bare / "git").symlink_to(git)

    done = subprocess.run(
        command(root),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": str(bare), "CXX": "", "FIB_CACHE_PATH": str(tmp_path / "cache")},
    )

    assert done.returncode == 0, done.stderr
    assert "g++" in done.stdout + done.stderr
    assert [line["solution"] for line in recorded(root)] == ["mine"]


def with_cache(root: Path, cache: Path | str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(root),
        cwd=root.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FIB_CACHE_PATH": str(cache)},
    )


def test_a_cache_that_cannot_be_written_is_no_fault_of_a_solution(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", solution(HONEST))
    file = tmp_path / "file"
    file.write_text("not a folder")

    running = with_cache(root, file)
    said = running.communicate(timeout=60)[1]

    assert running.returncode == 4
    assert f"cannot write the build cache at {file}" in said
    assert "FIB_CACHE_PATH" in said
    assert recorded(root) == []


@pytest.mark.full
def test_nor_is_one_that_cannot_be_written_any_more(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", slow("first", 0.1), slow("second"), sizes=(100,))
    cache = tmp_path / "cache"
    running = with_cache(root, cache)
    wait_for(lambda: list(cache.rglob("main.py")))
    time.sleep(0.5)  # it is built, and runs for longer

    cache.rename(tmp_path / "elsewhere")
    cache.write_text("not a folder")
    said = running.communicate(timeout=60)[1]

    assert running.returncode == 4, said
    assert f"cannot write the build cache at {cache}" in said
    assert [line["solution"] for line in recorded(root)] == ["first"]


@pytest.mark.full
def test_a_relative_cache_lies_where_the_command_was_given(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", solution(HONEST), sizes=(100,))

    running = with_cache(root, "near")
    said = running.communicate(timeout=60)[1]

    assert running.returncode == 0, said
    assert list((tmp_path / "near" / "solutions").rglob("main.py"))
