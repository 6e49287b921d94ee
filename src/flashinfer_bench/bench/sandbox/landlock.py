"""Landlock: the kernel's list of what a process may open, connect to and signal, for itself and its heirs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_RULE_PATH_BENEATH = 1
_LOG_NOTHING = 1  # a refusal is no event for the machine's audit log

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FIRST_RIGHTS = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_MAKE_DEVICES = (1 << 6) | (1 << 11)
_TCP = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3

_ABI_REFER, _ABI_TRUNCATE, _ABI_NETWORK, _ABI_IOCTL, _ABI_SCOPES, _ABI_LOGGING = 2, 3, 4, 5, 6, 7

LIST = _READ_DIR
READ = _READ_FILE | _READ_DIR | _EXECUTE
USE = _READ_FILE | _WRITE_FILE | _IOCTL_DEVICE
"""What a device is opened for."""
CHANGE = _WRITE_FILE | _TRUNCATE
WRITE = (READ | _FIRST_RIGHTS | _REFER | _TRUNCATE) & ~_MAKE_DEVICES


@dataclass(frozen=True, slots=True)
class PathRule:
    """What may be done with a file, or with all beneath a folder."""

    path: str
    rights: int


def has_scopes(version: int) -> bool:
    """Tell whether signals to processes outside can be refused (Linux 6.12)."""
    return version >= _ABI_SCOPES


def has_truncate(version: int) -> bool:
    """Tell whether shortening a file by its name can be refused (Linux 6.2)."""
    return version >= _ABI_TRUNCATE


def restrict(rules: Iterable[PathRule], version: int, *, refuses_connections: bool = True) -> None:
    """Allow what the rules say and nothing else that this version knows; a missing path is passed over.

    Where it does not refuse connections, something else has to do so afterwards.
    Needs no-new-privileges; raises `OSError` where the kernel refuses.
    """
    handled = handled_rights(version)
    ruleset = _create(handled, version, _TCP if refuses_connections else 0)
    try:
        for rule in rules:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _add(ruleset, rule, handled)
        flags = _LOG_NOTHING if version >= _ABI_LOGGING else 0
        _checked(_libc().syscall(_RESTRICT_SELF, ruleset, flags), "restrict self")
    finally:
        os.close(ruleset)


def handled_rights(version: int) -> int:
    """Combine the rights on files that a version knows."""
    younger = ((_ABI_REFER, _REFER), (_ABI_TRUNCATE, _TRUNCATE), (_ABI_IOCTL, _IOCTL_DEVICE))
    return _FIRST_RIGHTS | sum(right for since, right in younger if version >= since)


def _create(handled: int, version: int, tcp: int) -> int:
    fields = [handled]
    if version >= _ABI_NETWORK:
        fields.append(tcp)
    if version >= _ABI_SCOPES:
        fields.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    size = ctypes.c_size_t(len(attributes))
    return _checked(_libc().syscall(_CREATE_RULESET, attributes, size, 0), "create ruleset")


def _add(ruleset: int, rule: PathRule, handled: int) -> None:
    descriptor = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = rule.rights & handled
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        attributes = struct.pack("=Qi", rights, descriptor)
        done = _libc().syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, attributes, 0)
        _checked(done, f"rule for {rule.path}")
    finally:
        os.close(descriptor)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {what}")
    return int(result)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
