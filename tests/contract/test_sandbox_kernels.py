"""The sandbox on kernels that offer less: what is left holds, and what is missing is said."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.bench.worker import seccomp
from flashinfer_bench.tensors import system

SHUT_IN = """
import json, os, socket, sys
from flashinfer_bench.bench.confinement import Confinement
from flashinfer_bench.bench.worker import grants, sandbox
kernel, folder, outside = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
readable = grants.readable(dict(os.environ))
missing = sandbox.enter(Confinement("process", "cpu", folder, folder), readable=readable, **kernel)
def is_refused(action):
    try:
        action()
    except OSError:
        return True
    return False
print(json.dumps({
    "missing": sorted(each.measure for each in missing),
    "reads": not is_refused(lambda: open(outside).read()),
    "shortens": not is_refused(lambda: os.truncate(outside, 3)),
    "signals its parent": not is_refused(lambda: os.kill(os.getppid(), 0)),
    "signals itself": not is_refused(lambda: os.kill(os.getpid(), 0)),
    "opens a network socket": not is_refused(lambda: socket.socket(socket.AF_INET)),
    "slows its parent": not is_refused(lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 1)),
    "uses its folder": not is_refused(lambda: open(folder + "/own", "w")),
}))
"""
HELD = {
    "missing": [],
    "reads": False,
    "shortens": False,
    "signals its parent": False,
    "signals itself": True,
    "opens a network socket": False,
    "slows its parent": False,
    "uses its folder": True,
}


def tried(kernel: dict[str, object], tmp_path: Path) -> dict[str, object]:
    """Shut a process in as on another kernel, and have it try."""
    own, outside = tmp_path / "own", tmp_path / "outside"
    own.mkdir()
    outside.write_text("a secret")
    done = subprocess.run(
        [sys.executable, "-c", SHUT_IN, json.dumps(kernel), str(own), str(outside)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("version", range(1, 8))
def test_every_landlock_holds_a_solution(version: int, tmp_path: Path) -> None:
    if system.landlock_abi() < version or not seccomp.is_known_machine():
        pytest.skip(f"landlock {system.landlock_abi()} on {platform.machine()}")

    assert tried({"landlock_abi": version}, tmp_path) == HELD


def test_without_landlock_the_filter_still_holds(tmp_path: Path) -> None:
    if not seccomp.is_known_machine():
        pytest.skip(f"no filter for {platform.machine()}")

    found = tried({"landlock_abi": 0}, tmp_path)

    assert found == HELD | {"missing": ["files", "processes"], "reads": True}


def test_without_a_filter_landlock_still_holds_and_what_it_cannot_is_said(tmp_path: Path) -> None:
    if system.landlock_abi() == 0:
        pytest.skip("no landlock")

    found = tried({"has_seccomp": False}, tmp_path)

    assert {"network", "processes", "files"} <= set(found["missing"])
    assert not found["reads"]
    assert found["uses its folder"]
