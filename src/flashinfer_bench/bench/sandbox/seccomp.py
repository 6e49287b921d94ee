"""A filter of system calls: what no kernel needs to compute, and what reaches beyond its own process.

No rule of it needs privileges or namespaces, so it holds inside most containers too.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1
_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1 << 2  # without it, older kernels slow the process down
_RET_ERRNO = 0x00050000
_RET_ALLOW = 0x7FFF0000
_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER_OFFSET, _ARCH_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
_X32_BIT = 0x40000000
_ABSENT = -1

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What the kernel calls the native calling convention of a machine; any other is refused."""

_NUMBERS: dict[str, tuple[int, int]] = {
    # name: (on x86_64, on aarch64)
    "seccomp": (317, 277),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "io_uring_setup": (425, 425),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "chown": (92, _ABSENT),
    "lchown": (94, _ABSENT),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "truncate": (76, 45),
    "chmod": (90, _ABSENT),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "utime": (132, _ABSENT),
    "utimes": (235, _ABSENT),
    "futimesat": (261, _ABSENT),
    "utimensat": (280, 88),
    "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "prlimit64": (302, 261),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "prctl": (157, 167),
    "mremap": (25, 216),
    "clone": (56, 220),
    "clone3": (435, 435),
}

_REFUSED: dict[int, tuple[str, ...]] = {
    errno.EACCES: ("connect", "perf_event_open"),
    # The first opens sockets without the call above; of the second nobody sees the flags, and libraries do with clone.
    errno.ENOSYS: ("io_uring_setup", "clone3"),
    errno.EPERM: (
        *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise"),
        *("pidfd_getfd", "kcmp", "migrate_pages", "move_pages", "bpf"),
        *("shmget", "semget", "msgget", "mq_open", "add_key", "request_key", "keyctl"),
        *("chown", "lchown", "fchown", "fchownat"),
        *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
        *("removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr"),
    ),
}
_PRETENDED = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2"),
    *("utime", "utimes", "futimesat", "utimensat"),
)
"""Refusing these would stop honest tools that copy files; they succeed and change nothing."""

_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_VM, _CLONE_VFORK, _CLONE_PARENT, _CLONE_THREAD = 0x100, 0x4000, 0x8000, 0x10000
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 1, 5, 0xF


@dataclass(frozen=True, slots=True)
class _Only:
    """A call that is allowed where an argument, or the bits of it under `mask`, has one of the values."""

    call: str
    argument: int
    values: tuple[int, ...]
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class _Never:
    """A call that is refused where an argument, or the bits of it under `mask`, has one of the values."""

    call: str
    argument: int
    values: tuple[int, ...]
    mask: int | None = None


def is_known_machine() -> bool:
    """Tell whether the numbers of this machine's system calls are known here."""
    return platform.machine() in _ARCHITECTURES


def install(
    *,
    pid: int,
    restricts_signals: bool,
    restricts_truncate: bool,
    holds_all_threads: bool = False,
) -> None:
    """Filter this process's system calls from now on, and those of all it starts.

    `pid` is its own. The next two stand in for what an older landlock does not do. `holds_all_threads`: those that
    run already, too; else those of this thread. Needs no-new-privileges; raises `OSError` where the kernel refuses.
    """
    threads = _SECCOMP_FILTER_FLAG_TSYNC if holds_all_threads else 0
    program = assemble(
        pid=pid, restricts_signals=restricts_signals, restricts_truncate=restricts_truncate
    )
    code = ctypes.create_string_buffer(program, len(program))
    count = len(program) // 8
    descriptor = struct.pack("@HP", count, ctypes.addressof(code))
    number = number_of("seccomp")
    libc = ctypes.CDLL(None, use_errno=True)
    for flags in (_SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0):  # the flag is younger than filters are
        done = libc.syscall(number, _SECCOMP_SET_MODE_FILTER, flags | threads, descriptor)
        if done == 0:
            return
    raise OSError(ctypes.get_errno(), "seccomp filter")


def assemble(*, pid: int, restricts_signals: bool, restricts_truncate: bool) -> bytes:
    """Write the filter for this machine's calling convention."""
    code = [
        _instruction(_LOAD_WORD, _ARCH_OFFSET),
        _instruction(_JUMP_IF_EQUAL, _ARCHITECTURES[platform.machine()], if_true=1),
        _instruction(_RETURN, _RET_ERRNO | errno.ENOSYS),
        _instruction(_LOAD_WORD, _NUMBER_OFFSET),
    ]
    if platform.machine() == "x86_64":
        code += [
            _instruction(_JUMP_IF_AT_LEAST, _X32_BIT, if_false=1),
            _instruction(_RETURN, _RET_ERRNO | errno.ENOSYS),
        ]
    for code_number, calls in _REFUSED.items():
        code += _answers(calls, code_number)
    code += _answers(_PRETENDED, 0)
    if restricts_truncate:
        code += _answers(("truncate",), errno.EACCES)
    rules: list[_Only | _Never] = [*_about_sockets(), *_about_other_processes(pid)]
    if restricts_signals:
        code += _answers(("tkill", "pidfd_send_signal"), errno.EPERM)
        rules += _about_signals(pid)
    for rule in rules:
        code += _conditional(rule)
    code.append(_instruction(_RETURN, _RET_ALLOW))
    return b"".join(code)


def _about_sockets() -> Iterable[_Only]:
    """A socket leads nowhere: none of the network, and none that can be given an address to send to.

    CUDA does not start without a Unix socket of its own, which it binds and nobody calls.
    """
    for call in ("socket", "socketpair"):
        yield _Only(call, 0, (_AF_UNIX,))
        yield _Only(call, 1, (_SOCK_STREAM, _SOCK_SEQPACKET), mask=_SOCK_TYPE_MASK)


def _about_other_processes(pid: int) -> Iterable[_Only | _Never]:
    """Nobody may be slowed down: neither by priority, nor by processor, nor by limits."""
    yield _Only("setpriority", 0, (0,))  # PRIO_PROCESS
    yield _Only("setpriority", 1, (0, pid))
    yield _Only("ioprio_set", 0, (1,))  # IOPRIO_WHO_PROCESS
    yield _Only("ioprio_set", 1, (0, pid))
    for call in ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"):
        yield _Only(call, 0, (0, pid))
    yield _Only("prlimit64", 0, (0, pid))
    # An old size of 0 maps the same pages a second time. So is one of 4 GiB read here: malloc copies then.
    yield _Never("mremap", 1, (0,))
    yield _Never("prctl", 0, (_PR_SET_CHILD_SUBREAPER,))  # orphans stay its own, and count
    yield _Never("clone", 0, (_CLONE_PARENT,), mask=_CLONE_PARENT)  # children too
    # Who shares memory is a thread, which counts, or keeps its parent waiting until it is another program.
    yield _Never("clone", 0, (_CLONE_VM,), mask=_CLONE_VM | _CLONE_THREAD | _CLONE_VFORK)


def _about_signals(pid: int) -> Iterable[_Only | _Never]:
    """Without landlock's scope, a process may signal itself and its group only."""
    for call in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        yield _Only(call, 0, (0, pid))
    yield _Never("fcntl", 1, (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX))
    yield _Never("ioctl", 1, (_FIOSETOWN, _SIOCSPGRP))


def _answers(calls: Iterable[str], code_number: int) -> list[bytes]:
    """Answer calls without making them: an error, or 0 for a success that is none."""
    code = []
    for number in map(number_of, calls):
        if number != _ABSENT:
            code += [
                _instruction(_JUMP_IF_EQUAL, number, if_false=1),
                _instruction(_RETURN, _RET_ERRNO | code_number),
            ]
    return code


def _conditional(rule: _Only | _Never) -> list[bytes]:
    """Look at the lower half of an argument: process ids and commands are 32 bits wide."""
    number = number_of(rule.call)
    if number == _ABSENT:
        return []
    refuse = _instruction(_RETURN, _RET_ERRNO | errno.EPERM)
    count = len(rule.values)
    body = [_instruction(_LOAD_WORD, _ARGUMENTS_OFFSET + 8 * rule.argument)]
    if rule.mask is not None:
        body.append(_instruction(_AND, rule.mask))
    if isinstance(rule, _Only):
        for index, value in enumerate(rule.values):
            body.append(_instruction(_JUMP_IF_EQUAL, value, if_true=count - index))
        body.append(refuse)
    else:
        for index, value in enumerate(rule.values):
            is_last = index == count - 1
            body.append(
                _instruction(
                    _JUMP_IF_EQUAL, value, if_true=count - 1 - index, if_false=int(is_last)
                )
            )
        body.append(refuse)
    body.append(_instruction(_LOAD_WORD, _NUMBER_OFFSET))
    return [_instruction(_JUMP_IF_EQUAL, number, if_false=len(body)), *body]


def number_of(call: str) -> int:
    """Give the number of a system call on this machine; only of the machines known here."""
    on_intel, on_arm = _NUMBERS[call]
    return on_arm if platform.machine() == "aarch64" else on_intel


def _instruction(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value & 0xFFFFFFFF)
