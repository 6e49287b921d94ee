"""The first steps of a worker: it is shut in, says what could not be put in force, and serves."""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import socket
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn

import msgspec

from flashinfer_bench.bench.channel import ChannelClosed
from flashinfer_bench.bench.sandbox import allowlist, enforcement, linked_packages
from flashinfer_bench.bench.sandbox.policy import SandboxPolicy
from flashinfer_bench.data import settings
from flashinfer_bench.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.protocol import Role

_MODULES: dict[Role, str] = {
    "judge": "flashinfer_bench.bench.judge.service",
    "candidate": "flashinfer_bench.bench.candidate.harness",
    "examined": "flashinfer_bench.bench.candidate.examined_process",
}
"""What serves as what."""
_RANK_GROUP = "flashinfer_bench.bench.candidate.rank_group"

STACK_SIGNAL = signal.SIGUSR2
"""Makes a candidate print its Python stack to its log: asked for when it hangs."""

FAILED = 70
"""The exit code of a worker that failed by a fault of ours."""


def serve_fresh(role: Role, channel: int, report: int, about: bytes) -> NoReturn:
    """Be a worker in a container, or below a tool: the process is fresh, and torch is imported inside."""
    policy = msgspec.json.decode(about, type=SandboxPolicy)
    readable = allowlist.readable(settings.environment_copy())
    if policy.opens_device_first:
        _open_device(policy.device)
    become(role, channel, report, policy, readable)


def command_of(role: Role, policy: SandboxPolicy, descriptors: Sequence[int]) -> list[str]:
    """Write the command of a fresh worker, on descriptors it inherits."""
    about = msgspec.json.encode(policy).decode()
    program = [sys.executable, "-P", "-m", "flashinfer_bench.bench.worker", "fresh"]
    return [*program, role, *map(str, descriptors), about]


def _open_device(device: str) -> None:
    """Start CUDA, and whatever library of a tool waits for that."""
    torch = importlib.import_module(
        "torch"
    )  # not before: the parent, which has no torch, knows this module
    torch.zeros(1, device=device)
    torch.cuda.synchronize(device)


def become(
    role: Role,
    channel: int,
    report: int,
    policy: SandboxPolicy,
    readable: Sequence[str],
    *,
    listener: int | None = None,
) -> NoReturn:
    """Shut this process in, tell `report` how that went, then serve; `listener` is where ranks meet."""
    try:
        faulthandler.enable()
        faulthandler.register(STACK_SIGNAL, all_threads=False)
        warnings.resetwarnings()
        warnings.simplefilter("ignore", ResourceWarning)  # ours would stand in a solution's log
        _shut_in(report, policy, readable, listener)
        worker = importlib.import_module(_MODULES[role])
        worker.serve(socket.socket(fileno=channel))
    except ChannelClosed:
        pass
    except DeviceError as error:  # the machine's, not ours: where it was raised helps nobody
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(FAILED)
    except BaseException as error:  # noqa: BLE001  # the outermost frame of a process that may not return
        sys.stderr.write(linked_packages.failure_text(error))
        sys.stderr.flush()
        os._exit(FAILED)
    os._exit(0)


def _shut_in(
    report: int, policy: SandboxPolicy, readable: Sequence[str], listener: int | None
) -> None:
    """The descriptor of the report is closed before anybody's code could write to it."""

    def meet() -> None:
        if policy.rank is not None:
            module = importlib.import_module(_RANK_GROUP)  # it imports torch
            module.join(policy.rank, policy.device, listener)

    missing = enforcement.enter(policy, readable=readable, meet=meet)
    linked_packages.require_shown()
    enforcement.make_at_home(policy)
    os.write(report, msgspec.msgpack.encode(missing))
    os.close(report)
