from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from flashinfer_bench.bench.sandbox import allowlist, container, landlock, seccomp
from flashinfer_bench.bench.sandbox.landlock import LIST, READ, USE, WRITE
from flashinfer_bench.bench.sandbox.policy import Missing, Sandbox, SandboxPolicy


def granted(paths: list[Path], *, hidden: list[Path]) -> dict[str, int]:
    found = allowlist.rules(
        [str(path) for path in paths],
        device="cpu",
        hidden=[str(path) for path in hidden],
        writable=(),
    )
    return {rule.path: rule.rights for rule in found if not rule.path.startswith("/dev/")}


def test_the_home_is_not_readable_even_where_it_is_on_the_path(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{tmp_path.parent}:/usr/bin"}

    readable = allowlist.readable(environment)

    assert not {str(tmp_path), str(tmp_path.parent)} & set(readable)
    assert "/usr" in readable


def test_programs_in_the_home_are_readable_and_what_lies_beside_them_is_not(tmp_path: Path) -> None:
    programs = tmp_path / ".cargo" / "bin"
    programs.mkdir(parents=True)

    readable = allowlist.readable({"HOME": str(tmp_path), "PATH": str(programs)})

    assert str(programs) in readable
    assert str(programs.parent) not in readable


def test_a_toolkit_outside_of_the_home_is_readable_as_a_whole(tmp_path: Path) -> None:
    programs = tmp_path / "toolkit" / "bin"
    programs.mkdir(parents=True)

    readable = allowlist.readable({"HOME": "/nonexistent", "PATH": str(programs)})

    assert str(programs.parent) in readable


def test_this_python_is_readable() -> None:
    readable = allowlist.readable({"HOME": "/nonexistent", "PATH": ""})

    for path in (os.path.realpath(sys.executable), os.path.realpath(pytest.__file__)):
        assert any(path.startswith(f"{each}/") for each in readable), path


def test_what_is_hidden_in_a_readable_folder_is_left_out(tmp_path: Path) -> None:
    for name in ("tools/lib/x", "tools/datasets/mine", "tools/datasets/other"):
        (tmp_path / name).mkdir(parents=True)
    tools = tmp_path / "tools"

    found = granted([tools], hidden=[tools / "datasets" / "mine"])

    assert found == {
        str(tools): LIST,
        str(tools / "lib"): READ,
        str(tools / "datasets"): LIST,
        str(tools / "datasets" / "other"): READ,
    }


def test_a_link_beside_what_is_hidden_grants_nothing(tmp_path: Path) -> None:
    (tmp_path / "tools" / "mine").mkdir(parents=True)
    (tmp_path / "tools" / "link").symlink_to(tmp_path / "tools" / "mine")

    found = granted([tmp_path / "tools"], hidden=[tmp_path / "tools" / "mine"])

    assert found == {str(tmp_path / "tools"): LIST}


def test_a_readable_folder_within_a_hidden_one_stays_readable(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()

    assert granted([tmp_path / "venv"], hidden=[tmp_path]) == {str(tmp_path / "venv"): READ}


def test_devices_of_a_gpu_are_for_solutions_on_it() -> None:
    on_cpu, on_gpu = (
        {rule.path for rule in allowlist.rules((), device=device, hidden=(), writable=())}
        for device in ("cpu", "cuda:0")
    )

    assert "/dev/null" in on_cpu
    assert not [path for path in on_cpu if "nvidia" in path]
    assert on_cpu <= on_gpu


@pytest.mark.parametrize(
    ("version", "count"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (7, 16)]
)
def test_no_right_is_named_that_a_kernel_does_not_know(version: int, count: int) -> None:
    assert landlock.handled_rights(version) == (1 << count) - 1


def test_nothing_that_is_granted_makes_devices() -> None:
    make_character, make_block = 1 << 6, 1 << 11

    assert not (READ | USE | WRITE | LIST) & (make_character | make_block)


@pytest.mark.skipif(not seccomp.is_known_machine(), reason="no filter for this machine")
def test_a_filter_is_whole_instructions_and_within_what_kernels_take() -> None:
    program = seccomp.assemble(pid=1234, restricts_signals=True, restricts_truncate=True)

    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096


@pytest.mark.parametrize(
    ("told", "meant"),
    [(0, 0), (1 << 8, 1 << 8), ((128 + 11) << 8, signal.SIGSEGV), ((128 + 9) << 8, signal.SIGKILL)],
)
def test_signals_in_a_container_are_told_as_signals(told: int, meant: int) -> None:
    assert container.wait_status(told) == meant


def test_a_level_is_named_only_when_all_of_it_was_in_force() -> None:
    gap = (Missing("network", "no filter"),)

    names = [Sandbox("process").name, Sandbox("process", gap).name, Sandbox("off", gap).name]

    assert names == ["process", "partial", "off"]


def test_what_is_hidden_is_covered_in_a_container_and_what_is_readable_in_it_is_not(
    tmp_path: Path,
) -> None:
    hidden, inside = tmp_path / "dataset", tmp_path / "dataset" / "venv"
    inside.mkdir(parents=True)
    policy = SandboxPolicy("container", "cpu", "/s", "/b", (str(hidden),))

    command = container.command(policy, [str(tmp_path), str(inside)], ["worker"])

    covered = command.index(str(hidden))
    assert command[covered - 1] == "--tmpfs"
    assert str(inside) in command[covered:]
