"""A process that is to run a solution or a reference shuts itself in, before a line of it is read.

Each measure stands alone: what a kernel does not offer is reported as missing, with the reason, and the
others hold all the same. Nothing here needs privileges, a namespace or a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import os
import site
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.bench.sandbox import (
    allowlist,
    capabilities,
    landlock,
    library_caches,
    limits,
    seccomp,
)
from flashinfer_bench.bench.sandbox.policy import Missing
from flashinfer_bench.data import settings
from flashinfer_bench.tensors import system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.sandbox.policy import Measure, SandboxPolicy

MEASURES: dict[Measure, str] = {
    "files": "reads only the system, Python and toolchains; writes only its own folders",
    "network": "connects to nothing",
    "signals": "signals none but its own processes",
    "processes": "neither looks into other processes nor slows them down",
    "capabilities": "has no rights of an administrator",
    "limits": "memory, file size and number of processes are bounded",
}
"""What each measure means for a solution."""

_THREADS_BEFORE = "threads of NCCL were started before it was put in force"
_SWITCHED_OFF = "switched off"
_OF_CONTAINER = ("/tmp", "/dev/shm")  # noqa: S108  # nobody else sees them
_NAMESPACES_HOLD = {"files", "network", "signals", "processes"}


def enter(
    policy: SandboxPolicy,
    *,
    readable: Sequence[str],
    meet: Callable[[], None] = lambda: None,
    landlock_abi: int | None = None,
    has_seccomp: bool = True,
) -> tuple[Missing, ...]:
    """Shut this process in for good and return what could not be put in force.

    `readable` is what `allowlist.readable` found. `meet` lets a rank connect with the others: as late as that can
    be, before the filter, which then holds threads that were started meanwhile. NCCL opens files and devices that
    the measures forbid, so it connects before all of them. The last two make a test see an older kernel.
    """
    meets_first = policy.rank is not None and policy.rank.backend == "nccl"
    if meets_first:
        meet()
    abi = system.landlock_abi() if landlock_abi is None else landlock_abi
    with contextlib.suppress(OSError):  # the build will say that its cache cannot be written
        Path(policy.build_folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    limits.become_subreaper()  # what its children leave behind is still seen as its own
    os.setpgid(0, 0)  # a signal to its group reaches no other worker
    limits.be_first_to_go(is_judge=policy.is_judge)
    missing = [*_tried("limits", lambda: _limit(policy))]
    limits.end_with_parent()
    limits.hide_from_debuggers()
    lifted = {each.measure for each in policy.lifted}
    if policy.level == "off":
        if not meets_first:
            meet()
        off: tuple[Measure, ...] = ("files", "network", "signals", "processes", "capabilities")
        return (*missing, *(Missing(each, _SWITCHED_OFF) for each in off))
    missing += policy.lifted
    keeps_counters = "capabilities" in lifted
    missing += _tried("capabilities", lambda: capabilities.drop(keeps_counters=keeps_counters))
    unlocked = [*_tried("files", lambda: _restrict_files(policy, readable, abi))]
    missing += unlocked
    missing += [Missing("processes", f"/proc can be read: {each.reason}") for each in unlocked]
    if meets_first:
        missing += (Missing(each, _THREADS_BEFORE) for each in ("files", "capabilities"))
    else:
        meet()
    missing += _filter_calls(
        abi, has_seccomp=has_seccomp, holds_all_threads=policy.rank is not None
    )
    if policy.level == "container":
        missing = [each for each in missing if each.measure not in _NAMESPACES_HOLD]
    return _one_each(missing)


def make_at_home(policy: SandboxPolicy) -> None:
    """Point this process and what it starts at folders of its own; call after `enter`."""
    compiled = library_caches.flashinfer_cache(settings.environment_copy())
    if compiled is not None and not policy.is_judge:
        library_caches.offer(compiled)
    variables = private_variables(policy)
    for name, value in variables.items():
        os.environ[name] = value
    with contextlib.suppress(OSError):
        Path(variables["HOME"]).mkdir(mode=0o700, parents=True, exist_ok=True)
    tempfile.tempdir = policy.scratch
    os.chdir(policy.scratch)


def private_variables(policy: SandboxPolicy) -> dict[str, str]:
    """Say where programs are to keep their files, instead of in the user's home.

    What compilers make at the first call lies with the solution's builds and serves its next process.
    """
    home = f"{policy.build_folder}/home"
    packages = {"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {}
    return packages | {
        "HOME": home,
        "TMPDIR": policy.scratch,
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_RUNTIME_DIR": policy.scratch,
        library_caches.FLASHINFER_BASE: home,
        "TRITON_HOME": home,
        "TRITON_CACHE_DIR": f"{policy.build_folder}/triton_kernels",
        "TILELANG_CACHE_DIR": f"{policy.build_folder}/tilelang_kernels",
        "TORCHINDUCTOR_CACHE_DIR": f"{policy.build_folder}/inductor",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # its pool of processes would compute beside the clock
        "TORCH_EXTENSIONS_DIR": f"{policy.build_folder}/torch_extensions",
        "CUDA_CACHE_PATH": f"{policy.build_folder}/cuda",
    }


def _limit(policy: SandboxPolicy) -> None:
    is_candidate, on_cpu = not policy.is_judge, not policy.device.startswith("cuda")
    has_memory = any(each.measure == "limits" for each in policy.lifted)
    limits.limit_resources(
        limits_files=is_candidate, limits_memory=is_candidate and on_cpu and not has_memory
    )


def _restrict_files(policy: SandboxPolicy, readable: Sequence[str], abi: int) -> None:
    if abi == 0:
        raise OSError("this kernel has no landlock (Linux 5.13), or it is not switched on")
    rules = [
        *allowlist.rules(
            readable,
            device=policy.device,
            hidden=policy.hidden,
            writable=_writable(policy),
        ),
        *_visible_processes(policy),
    ]
    # Ranks are still to meet; after that the filter refuses connections.
    landlock.restrict(rules, abi, refuses_connections=policy.rank is None)


def _writable(policy: SandboxPolicy) -> Iterator[str]:
    yield from (policy.scratch, policy.build_folder)
    if policy.level == "container":
        yield from _OF_CONTAINER


def _visible_processes(policy: SandboxPolicy) -> Iterator[landlock.PathRule]:
    """In a container, all of /proc; else what tells of the machine, and of this process.

    CUDA does not start when it cannot name its threads, which is done by writing there.
    """
    if policy.level == "container":
        yield landlock.PathRule("/proc", landlock.READ | landlock.CHANGE)
        return
    yield from (landlock.PathRule(path, landlock.READ) for path in allowlist.proc_entries())
    yield landlock.PathRule("/proc/self", landlock.READ | landlock.CHANGE)


def _filter_calls(
    abi: int, *, has_seccomp: bool, holds_all_threads: bool = False
) -> Iterator[Missing]:
    """Install the filter; without one, landlock alone may still hold signals."""
    has_scopes = landlock.has_scopes(abi)
    reason = None if has_seccomp else "this kernel has no seccomp filters"
    if reason is None and not seccomp.is_known_machine():
        reason = f"no filter is written for {os.uname().machine}"
    if reason is None:
        try:
            seccomp.install(
                pid=os.getpid(),
                restricts_signals=not has_scopes,
                restricts_truncate=not landlock.has_truncate(abi),
                holds_all_threads=holds_all_threads,
            )
        except OSError as error:
            reason = f"seccomp is refused: {error.strerror}"
    if reason is not None:
        yield Missing("network", reason)
        yield Missing("processes", reason)
        yield Missing("files", f"modes and times can be changed: {reason}")
        if not has_scopes:
            yield Missing("signals", f"{reason}, and landlock is older than that of Linux 6.12")


def _tried(measure: Measure, action: Callable[[], None]) -> Iterator[Missing]:
    try:
        action()
    except OSError as error:
        yield Missing(measure, error.strerror or str(error))


def _one_each(missing: Sequence[Missing]) -> tuple[Missing, ...]:
    """Name each measure once, with the reasons together."""
    reasons: dict[Measure, list[str]] = {}
    for each in missing:
        reasons.setdefault(each.measure, []).append(each.reason)
    return tuple(Missing(name, "; ".join(dict.fromkeys(texts))) for name, texts in reasons.items())
