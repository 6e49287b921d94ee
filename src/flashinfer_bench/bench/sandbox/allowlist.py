"""What a solution may read: the system's programs and libraries, this Python, the compilers; nothing of the user's."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.bench.sandbox import library_caches, linked_packages
from flashinfer_bench.bench.sandbox.landlock import LIST, READ, USE, WRITE, PathRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/sys"),
)
_SETTINGS = (
    *("alternatives", "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("ld.so.preload", "locale.alias", "localtime", "group", "mime.types", "nsswitch.conf"),
    *("nvidia", "OpenCL", "os-release", "passwd", "ssl/certs", "ssl/openssl.cnf", "timezone"),
)
_PROC = (
    *("buddyinfo", "bus", "cgroups", "cmdline", "cpuinfo", "devices", "driver", "filesystems"),
    *("interrupts", "loadavg", "meminfo", "modules", "stat", "sys", "uptime", "version"),
    *("vmstat", "zoneinfo"),
)
_DEVICES = ("null", "zero", "full", "urandom", "random")
_GPU_DEVICES = "nvidia*"
_TOOL_FOLDERS = ("CUDA_HOME", "CUDA_PATH", "CUTLASS_PATH")
_TOOL_FILES = ("CC", "CXX")
_PROGRAM_FOLDERS = {"bin", "sbin"}


def readable(environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the files and folders a solution may read and execute, by the names they are known under."""
    home = Path(environment.get("HOME") or "~").expanduser()
    imports = [*_import_folders()]
    compiled = library_caches.flashinfer_cache(environment)
    named = [
        *_SYSTEM,
        *(f"/etc/{name}" for name in _SETTINGS),
        *(sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix),
        *(path for path in imports if not _holds(path, home)),
        *(path for path in linked_packages.targets(imports) if not _holds(path, home)),
        *(path for path in _from_environment(environment, home) if not _holds(path, home)),
        *_library_folders(),
        *([] if compiled is None else [str(compiled)]),
    ]
    plain = {os.path.normpath(path) for path in named if path.startswith("/")}
    found = (plain | {os.path.realpath(path) for path in plain}) - {"/"}
    existing = {path for path in found if Path(path).exists()}
    return tuple(path for path in sorted(existing) if not linked_packages.lies_in(path, existing))


def rules(
    paths: Iterable[str], *, device: str, hidden: Sequence[str], writable: Iterable[str]
) -> Iterator[PathRule]:
    """Turn paths into rules that leave out what is hidden, and add devices and private folders."""
    kept_out = [os.path.realpath(path) for path in hidden]
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        yield from _without(path, kept_out)
    yield from (PathRule(path, USE) for path in devices(device))
    yield from (PathRule(path, WRITE) for path in writable)


def proc_entries() -> Iterator[str]:
    """Name what libraries read in /proc about the machine."""
    yield from (f"/proc/{name}" for name in _PROC)


def devices(device: str) -> Iterator[str]:
    """Name the device files that kernels open."""
    yield from (f"/dev/{name}" for name in _DEVICES)
    if device.startswith("cuda"):
        yield from (str(path) for path in sorted(Path("/dev").glob(_GPU_DEVICES)))


def _without(path: str, hidden: Sequence[str]) -> Iterator[PathRule]:
    """Grant all of a folder but what is hidden in it; names along the way can be listed."""
    if path in hidden:
        return
    if not any(each.startswith(path + "/") for each in hidden):
        yield PathRule(path, READ)
        return
    yield PathRule(path, LIST)
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield from _without(entry.path, hidden)


def _import_folders() -> Iterator[str]:
    """Where this interpreter imports from; packages that are installed in place too."""
    yield from (path for path in sys.path if path)
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):  # setuptools' way to install a folder in place
            yield from dict(getattr(module, "MAPPING", {})).values()


def _from_environment(environment: Mapping[str, str], home: Path) -> Iterator[str]:
    """What variables name: folders of programs with what belongs to them, libraries, toolkits.

    What lies beside a folder of programs in the user's home may be their tokens.
    """
    for path in environment.get("PATH", os.defpath).split(os.pathsep):
        yield path
        if Path(path).name in _PROGRAM_FOLDERS and not Path(path).is_relative_to(home):
            yield str(Path(path).parent)
    yield from environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for name in _TOOL_FOLDERS:
        yield environment.get(name, "")
    for name in _TOOL_FILES:
        yield environment.get(name, "").partition(" ")[0]
    yield from environment.get("LD_PRELOAD", "").replace(":", " ").split()


def _library_folders() -> Iterator[str]:
    """Where the dynamic linker looks beside the usual places."""
    for file in Path("/etc/ld.so.conf.d").glob("*.conf"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield from (line.strip() for line in file.read_text(encoding="utf-8").splitlines())


def _holds(path: str, home: Path) -> bool:
    """Tell whether a folder is the user's home or has it in it."""
    real = os.path.realpath(path)
    return f"{os.path.realpath(home)}/".startswith(real.rstrip("/") + "/")
