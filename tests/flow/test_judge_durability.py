"""What is ours is no verdict: a full disk, a worker of a service that is killed, a service that is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashinfer_bench.rl.service_judge import ServiceJudge
from tests.commands import call
from tests.flow.kernels import HONEST, wait_for, write_dataset
from tests.flow.service_processes import Place, kill, place

SIZES = (100, 200, 300)
KERNELS = {
    "wrong": "def run(x):\n    return x + 2\n",
    "not building": "def run(x:\n",
    "cheating": "def run(x):\n    y = x + 1\n    x.zero_()\n    return y\n",
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Place]:
    pytest.importorskip("uvicorn", reason="the service's extra is not installed")
    pytest.importorskip("fastapi", reason="the service's extra is not installed")
    pytest.importorskip("httpx2", reason="the service's extra is not installed")
    with place(tmp_path, sizes=SIZES) as found:
        found.serve()
        yield found


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB with nothing left."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"0" * 4096)
        except OSError:
            pass
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


def judged(root: Path, file: Path, **environment: str) -> dict[str, object]:
    """Judge by the command line, in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "flashinfer_bench", "judge", file),
            *("--definition", "increment", "--local", root, "--device", "cpu", "--json"),
        ],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return {"code": done.returncode, **json.loads(done.stdout)}


def test_a_full_disk_is_no_verdict_and_the_same_kernel_is_judged_with_room(
    full_disk: Path, tmp_path: Path
) -> None:
    root = write_dataset(tmp_path / "ds", sizes=SIZES)
    file = tmp_path / "kernel.py"
    file.write_text(HONEST)

    lost = judged(root, file, TMPDIR=str(full_disk), FIB_CACHE_PATH=str(full_disk / "cache"))

    assert lost["code"] == 4
    verdicts = lost.get("verdicts")
    said = json.dumps(lost)
    assert verdicts is None or verdicts[0]["reward"] is None  # type: ignore[index]
    assert "No space left" in said or "full" in said, said
    assert judged(root, file)["verdicts"][0]["right"] is True  # type: ignore[index]


@pytest.mark.full
def test_rewards_through_the_service_are_those_of_the_command_line(
    served: Place, tmp_path: Path
) -> None:
    files = [tmp_path / f"{number}.py" for number in range(len(KERNELS))]
    for file, code in zip(files, KERNELS.values(), strict=True):
        file.write_text(code)
    done = call(
        *("judge", *files, "--definition", "increment", "--local", served.dataset),
        *("--device", "cpu", "--json"),
    )
    expected = [each["reward"] for each in json.loads(done.stdout)["verdicts"]]

    with ServiceJudge(served.url, served.dataset) as judge:
        found = [judge.judge(code, "increment") for code in KERNELS.values()]
        right = judge.judge(HONEST, "increment")

    assert [each.reward for each in found] == expected == [0.1, 0.0, -1.0]
    assert right.right
    assert right.reward is not None
    assert 0.5 <= right.reward <= 1  # the server's few runs give no interval, and so no gain


def test_a_service_that_is_gone_is_no_verdict(served: Place) -> None:
    with ServiceJudge(served.url, served.dataset) as judge:
        served.end()
        lost = judge.judge(HONEST, "increment")

    assert (lost.reward, lost.cause) == (None, "service")
    assert lost.no_verdict


@pytest.mark.full
def test_a_service_whose_worker_is_killed_and_does_not_return_is_no_verdict(
    tmp_path: Path,
) -> None:
    pytest.importorskip("uvicorn", reason="the service's extra is not installed")
    with place(tmp_path, sizes=SIZES) as at:
        tokens = {
            scope: call("tokens", "add", scope, "--scopes", scope, "--store", at.store).stdout
            for scope in ("worker", "submit")
        }
        (tmp_path / "worker.token").write_text(tokens["worker"])
        token = tokens["submit"].strip()
        at.serve("--no-worker")
        worker = at.work("--token-file", str(tmp_path / "worker.token"))
        with at.client(token) as client:
            wait_for(lambda: client.health().workers)
        kill(worker)
        with ServiceJudge(at.url, at.dataset, token=token, most_wait_s=3.0) as judge:
            lost = judge.judge(HONEST, "increment")

    assert (lost.reward, lost.cause) == (None, "service")
    assert "has not ended" in str(lost.no_verdict)
