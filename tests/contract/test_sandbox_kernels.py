"""The sandbox on kernels that offer less: what is left holds, and what is missing is said."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.bench.sandbox import seccomp
from flashinfer_bench.tensors import system

SHUT_IN = """
import json, os, socket, sys
from flashinfer_bench.bench.sandbox.policy import SandboxPolicy
from flashinfer_bench.bench.sandbox import allowlist, enforcement
kernel, folder, outside = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
readable = allowlist.readable(dict(os.environ))
missing = enforcement.enter(SandboxPolicy("process", "cpu", folder, folder), readable=readable, **kernel)
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


STARTS = """
import ctypes, errno, json, multiprocessing, os, signal, subprocess, sys, threading
from flashinfer_bench.bench.sandbox.policy import SandboxPolicy
from flashinfer_bench.bench.sandbox import allowlist, enforcement, seccomp
folder = sys.argv[1]
enforcement.enter(SandboxPolicy("process", "cpu", folder, folder), readable=allowlist.readable(dict(os.environ)))
libc = ctypes.CDLL(None, use_errno=True)
VM, VFORK, PARENT = 0x100, 0x4000, 0x8000
def start(flags):
    return called("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
def called(name, *arguments):
    pid = libc.syscall(seccomp.number_of(name), *arguments)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
        return "started"
    return errno.errorcode[ctypes.get_errno()]
def is_soon_out_of_timers():
    made = ctypes.c_void_p()
    return any(libc.timer_create(1, None, ctypes.byref(made)) for _ in range(1000))
def in_thread():
    found = []
    thread = threading.Thread(target=found.append, args=(42,))
    thread.start()
    thread.join()
    return found == [42]
def in_fork():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
def in_process(method):
    near, far = multiprocessing.Pipe()
    process = multiprocessing.get_context(method).Process(target=far.send, args=(42,))
    process.start()
    process.join()
    return near.recv() == 42
if __name__ == "__main__":
    print(json.dumps({
        "a child": start(0),
        "a sibling": start(PARENT),
        "a sibling that keeps us waiting": start(PARENT | VFORK),
        "a process on our memory": start(VM),
        "a sibling on our memory": start(VM | PARENT),
        "clone3": called("clone3", None, 0),
        "a few timers": libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0,
        "a thousand timers": not is_soon_out_of_timers(),
        "a thread": in_thread(),
        "a fork": in_fork(),
        "a program": subprocess.run([sys.executable, "-c", "print(42)"], capture_output=True).stdout == b"42\\n",
        "a program by a shell": os.system("exit 3") == 3 << 8,
        "a forked worker": in_process("fork"),
    }))
"""


def test_a_process_starts_no_siblings_nobody_who_shares_its_memory_unseen_and_few_timers(
    tmp_path: Path,
) -> None:
    if not seccomp.is_known_machine():
        pytest.skip(f"no filter for {platform.machine()}")

    done = subprocess.run(
        [sys.executable, "-c", STARTS, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == {
        "a child": "started",
        "a sibling": "EPERM",
        "a sibling that keeps us waiting": "EPERM",
        "a process on our memory": "EPERM",
        "a sibling on our memory": "EPERM",
        "clone3": "ENOSYS",
        "a few timers": True,
        "a thousand timers": False,
        "a thread": True,
        "a fork": True,
        "a program": True,
        "a program by a shell": True,
        "a forked worker": True,
    }
