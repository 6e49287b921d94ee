"""A dataset from a stranger: links out of it, pipes, devices, sockets and folders in place of files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from safetensors.torch import save_file

from flashinfer_bench.data import Trace, TraceSet, Workload, save_json_file, save_jsonl_file, unpack
from tests import commands
from tests.flow.kernels import HONEST, INCREMENT, solution
from tests.marks import mostly_full

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
SECRET = "the secret of this machine"
SOLUTION = "solutions/tester/elementwise/increment/candidate"
QUICK = ("--warmup-runs", "1", "--iterations", "3", "--num-trials", "1")
BLOB = "blob/workloads/x.safetensors"
PLACES = {
    "definition": "definitions/elementwise/other.json",
    "workloads": "workloads/elementwise/other.jsonl",
    "solution": "solutions/tester/elementwise/increment/other.json",
    "traces": "traces/tester/elementwise/other.jsonl",
    "samples": "traces/tester/elementwise/increment.samples.ndjson",
    "source": f"{SOLUTION}/other.py",
    "solution.toml": "solutions/tester/elementwise/increment/other/solution.toml",
}


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listener(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may not be long
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(here)


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (pipe, "is a named pipe, not a file"),
    "socket": (listener, "is a socket, not a file"),
    "folder": (Path.mkdir, "is a folder, not a file"),
    "device": (zero, "leads by a link to /dev/zero, outside of"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset with a solution in a folder and a solution's stored input; beside it, a secret."""
    root = tmp_path / "stranger"
    (tmp_path / "secret.py").write_text(f"# {SECRET}\n")
    save_json_file(INCREMENT, root / "definitions/elementwise/increment.json")
    stored = {"type": "safetensors", "path": "blob/workloads/x.safetensors", "tensor_key": "x"}
    workloads = [
        Workload(axes={"n": 8}, inputs={"x": {"type": "random"}}, uuid="drawn"),
        Workload.model_validate({"axes": {"n": 8}, "inputs": {"x": stored}, "uuid": "stored"}),
    ]
    lines = [Trace(definition="increment", workload=each) for each in workloads]
    save_jsonl_file(lines, root / "workloads/elementwise/increment.jsonl")
    (root / "blob/workloads").mkdir(parents=True)
    save_file({"x": torch.ones(8)}, root / "blob/workloads/x.safetensors")
    unpack(solution(HONEST), root / SOLUTION)
    return root


def call(*arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Give a command, which may wait for what never comes."""

    def end(*_: object) -> NoReturn:
        raise TimeoutError(f"not over after {timeout} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        return commands.call(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def reading_commands(root: Path) -> dict[str, tuple[str | Path, ...]]:
    out = root.parent
    return {
        "validate": ("validate", "--local", root),
        "html": ("report", "html", out / "site", "--local", root),
        "summary": ("report", "summary", "--local", root),
        "merge": ("report", "merge", root, "--output", out / "merged"),
        "export": ("export", "flashinfer-trace", "--local", root, "--output", out / "exported"),
        "run": ("run", "--local", root, *QUICK),
        "check": ("check", root / SOLUTION, "--local", root),
    }


def refused(root: Path, name: str, place: str, words: str) -> None:
    """Each command ends soon and names the file, and none carries the secret away."""
    done = call(*reading_commands(root)[name])
    said = done.stdout + done.stderr

    assert done.returncode == (1 if name == "validate" else 3), said
    assert place.removesuffix("/solution.toml") in said
    assert words in " ".join(said.split())
    assert "Traceback" not in said
    assert SECRET not in said


def put(root: Path, place: str, odd: str) -> str:
    """Put something odd in place of a file; give the words that tell of it."""
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if odd == "secret":
        path.symlink_to(os.path.relpath(root.parent / "secret.py", path.parent))
        return f"leads by a link to {root.parent}/secret.py, outside of"
    make, words = ODD[odd]
    make(path)
    return words


@pytest.mark.parametrize("odd", mostly_full([*ODD, "secret"], "pipe", "secret"))
def test_validate_names_every_odd_file(root: Path, odd: str) -> None:
    places = [place for place in PLACES.values() if odd != "folder" or place != PLACES["source"]]
    words = [put(root, place, odd) for place in places]

    done = call("validate", "--local", root)
    said = " ".join(done.stdout.split())

    assert done.returncode == 1
    assert [place for place in places if place not in said] == []
    assert said.count(words[0]) == len(places)


@pytest.mark.parametrize(
    ("place", "odd"), mostly_full(product(PLACES, ("pipe", "secret")), ("workloads", "pipe"))
)
def test_what_reads_a_dataset_names_an_odd_file_and_waits_for_nobody(
    root: Path, place: str, odd: str
) -> None:
    refused(root, "summary", PLACES[place], put(root, PLACES[place], odd))


@pytest.mark.parametrize("odd", mostly_full(["socket", "folder", "device"], "device"))
def test_other_things_that_are_no_files_are_errors_too(root: Path, odd: str) -> None:
    refused(root, "summary", PLACES["definition"], put(root, PLACES["definition"], odd))


@pytest.mark.parametrize(
    ("command", "odd"),
    mostly_full(
        product(("html", "merge", "export", "run", "check"), ("pipe", "device", "secret")),
        *(("run", "pipe"), ("export", "secret"), ("html", "device")),
    ),
)
def test_every_command_refuses_an_odd_source(root: Path, command: str, odd: str) -> None:
    refused(root, command, PLACES["source"], put(root, PLACES["source"], odd))


@pytest.mark.parametrize(
    "kind",
    mostly_full(["definitions/more", "solutions/more", "workloads", "traces"], "solutions/more"),
)
def test_a_linked_folder_that_leaves_the_dataset_is_refused(root: Path, kind: str) -> None:
    if (root / kind).is_dir():
        shutil.rmtree(root / kind)
    (root / kind).symlink_to("/")

    for command in ("validate", "summary"):
        refused(root, command, kind, "leads by a link to /, outside of the dataset")


def test_pack_refuses_links_that_leave_the_folder(root: Path) -> None:
    folder = root / SOLUTION
    (folder / "chain.py").symlink_to("hop")
    (folder / "hop").symlink_to(root.parent / "secret.py")

    done = call("pack", folder, "--output", "-")

    assert done.returncode == 3
    assert (
        f"leads by a link to {root.parent}/secret.py, outside of the solution's folder"
        in done.stderr
    )
    assert SECRET not in done.stdout


@pytest.mark.parametrize("odd", mostly_full(["pipe", "folder", "device"], "pipe"))
def test_pack_refuses_a_description_that_is_no_file(root: Path, odd: str) -> None:
    words = put(root, f"{SOLUTION}/solution.toml", odd)

    done = call("pack", root / SOLUTION, "--output", "-")

    assert done.returncode == 3
    assert f"{SOLUTION}/solution.toml: {words}" in done.stderr


@pytest.mark.parametrize("odd", mostly_full([*ODD, "secret"], "pipe"))
def test_an_odd_blob_is_the_datasets_fault_and_the_run_goes_on(root: Path, odd: str) -> None:
    words = put(root, BLOB, odd)

    done = call("run", "--local", root, *QUICK, timeout=120)
    [trace] = TraceSet.from_path(root).traces["increment"]

    assert done.returncode == 3, done.stdout + done.stderr
    assert words in " ".join(done.stdout.split())
    assert (trace.workload.uuid, str(trace.evaluation and trace.evaluation.status)) == (
        "drawn",
        "PASSED",
    )
    validated = call("validate", "--local", root)
    assert validated.returncode == 1
    assert words in " ".join(validated.stdout.split())


@pytest.mark.parametrize(
    ("odd", "command"),
    mostly_full(
        product(("pipe", "secret"), ("merge", "export")), ("pipe", "merge"), ("secret", "export")
    ),
)
def test_no_odd_blob_is_carried_into_another_dataset(root: Path, odd: str, command: str) -> None:
    words = put(root, BLOB, odd)

    refused(root, command, BLOB, words)
    assert not (root.parent / "merged").exists()
    assert not (root.parent / "exported").exists()


def test_links_within_a_solution_and_a_dataset_work(root: Path) -> None:
    folder = root / SOLUTION
    (folder / "common").mkdir()
    (folder / "main.py").rename(folder / "common" / "kernel.py")
    (folder / "main.py").symlink_to("common/../common/kernel.py")
    (folder / "solution.toml").rename(folder / "about.toml")
    (folder / "solution.toml").symlink_to("about.toml")
    (root / "blob/workloads/x.safetensors").rename(root / "blob/y.safetensors")
    (root / "blob/workloads/x.safetensors").symlink_to("../y.safetensors")
    (root / "workloads").rename(root / "kept")
    (root / "workloads").symlink_to("kept")

    done = call("run", "--local", root, *QUICK, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(TraceSet.from_path(root).traces["increment"]) == 2
    [packed] = TraceSet.from_path(root).solutions["increment"]
    assert [each.path for each in packed.sources] == ["about.toml", "common/kernel.py", "main.py"]
    for command in ("validate", "html", "merge", "export", "summary"):
        assert call(*reading_commands(root)[command]).returncode == 0, command
    merged = root.parent / "merged"
    assert (merged / "blob/workloads/x.safetensors").is_file()
    assert not (merged / SOLUTION / "main.py").is_symlink()


def test_the_folder_that_a_command_names_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "by_link").symlink_to(root)
    (tmp_path / "mine").symlink_to(root / SOLUTION)

    packed = call("pack", tmp_path / "mine", "--output", "-")

    assert json.loads(packed.stdout)["name"] == "candidate"
    assert call("validate", "--local", tmp_path / "by_link").returncode == 0


def test_a_linked_folder_within_the_dataset_is_not_entered_and_validate_says_so(root: Path) -> None:
    (root / "solutions/tester/elementwise/again").symlink_to("increment")

    done = call("validate", "--local", root)

    assert done.returncode == 0
    assert "LAY-23" in done.stdout
    assert len(TraceSet.from_path(root).solutions["increment"]) == 1


def test_files_too_large_are_refused_unread(root: Path) -> None:
    os.truncate(root / "workloads/elementwise/increment.jsonl", 1 << 40)  # a hole: it takes no room

    done = call("report", "summary", "--local", root)

    assert done.returncode == 3
    assert "is 1,048,576.0 MiB; a file of its kind is read up to 1,024 MiB" in done.stderr


@pytest.mark.full
def test_the_bundled_dataset_is_as_good_as_before(tmp_path: Path) -> None:
    assert call("validate", "--local", BUNDLED).returncode == 0
    assert call("report", "html", tmp_path / "site", "--local", BUNDLED).returncode == 0
