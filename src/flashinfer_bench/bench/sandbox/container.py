"""A solution in a container of bubblewrap: namespaces of its own around a fresh interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.bench.sandbox import allowlist

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.sandbox.policy import SandboxPolicy

_PROGRAM = "bwrap"
_PROBE_TIMEOUT_S = 20
_SIGNALLED = 128
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"),
    *("--unshare-uts", "--unshare-cgroup-try", "--die-with-parent"),
)


def missing_program() -> str | None:
    """Say why there can be no container here; None when there can."""
    program = shutil.which(_PROGRAM)
    if program is None:
        return "bubblewrap is not installed: apt-get install bubblewrap, or dnf install bubblewrap"
    command = [program, *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    try:
        done = subprocess.run(
            [*command, "--", "/bin/true"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if done.returncode != 0:
        return f"bubblewrap cannot make a container here: {done.stderr.strip() or done.returncode}"
    return None


def command(policy: SandboxPolicy, readable: Sequence[str], worker: Sequence[str]) -> list[str]:
    """Write the command that runs a worker's command in a container."""
    program = shutil.which(_PROGRAM) or _PROGRAM
    return [
        program,
        *_NAMESPACES,
        *("--tmpfs", "/tmp"),  # noqa: S108  # the container's own
        *("--proc", "/proc", "--dev", "/dev"),
        *_devices(policy),
        *_read_only(readable),
        *_emptied(policy, readable),
        *_writable(policy),
        *("--chdir", policy.scratch, "--"),
        *worker,
    ]


def wait_status(status: int) -> int:
    """Turn the end of bubblewrap into that of the process in it, whose signals it tells as exit codes."""
    if not os.WIFEXITED(status):
        return status
    number = os.WEXITSTATUS(status) - _SIGNALLED
    return number if 0 < number < _SIGNALLED // 2 else status


def _devices(policy: SandboxPolicy) -> Iterator[str]:
    for path in allowlist.devices(policy.device):
        yield from ("--dev-bind-try", path, path)


def _read_only(readable: Sequence[str]) -> Iterator[str]:
    """Bind what may be read under every name it is known by."""
    for path in readable:
        yield from ("--ro-bind-try", os.path.realpath(path), path)


def _emptied(policy: SandboxPolicy, readable: Sequence[str]) -> Iterator[str]:
    """Cover what is hidden inside of something readable, but not what is readable inside of that."""
    for path in map(os.path.realpath, policy.hidden):
        if Path(path).is_dir() and any(f"{path}/".startswith(f"{each}/") for each in readable):
            yield from ("--tmpfs", path)
            yield from _read_only([each for each in readable if each.startswith(f"{path}/")])


def _writable(policy: SandboxPolicy) -> Iterator[str]:
    for path in (policy.scratch, policy.build_folder):
        yield from ("--bind", path, path)
