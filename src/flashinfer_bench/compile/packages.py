"""A folder of sources imported as one package of this process.

The package is found through its own `__path__`, never through `sys.path`: a `torch.py` among a
solution's sources is `<package>.torch` and cannot stand in for the real one.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path, PurePath
    from types import ModuleType

_USERS = "__flashinfer_bench_users__"
_IMPORTING = threading.RLock()


def import_module(folder: Path, package: str, entry: PurePath, *, where: str) -> ModuleType:
    """Import `entry`, a path relative to `folder`, as a module of `package`; undone by `release`.

    Importing runs the solution's code: whatever it raises, `SystemExit` included, becomes a
    `BuildError` whose log shows the frames of the solution only. Ctrl-C stays Ctrl-C.
    """
    name = _module_name(package, entry, where=where)
    with _IMPORTING:
        try:
            root = _package(folder, package)
            module = importlib.import_module(name)
        except KeyboardInterrupt:
            _forget(folder, package)
            raise
        except BaseException as error:
            _forget(folder, package)
            message = f"{where} cannot be imported: {_one_line(error)}{_hint(error, folder)}"
            raise BuildError(message, log=_own_traceback(error, folder)) from error
        setattr(root, _USERS, getattr(root, _USERS, 0) + 1)
        return module


def release(folder: Path, package: str) -> None:
    """Drop the package from this process when nobody who imported it is left."""
    with _IMPORTING:
        root = sys.modules.get(package)
        if root is None or not _lies_in(root, folder):
            return
        setattr(root, _USERS, getattr(root, _USERS, 0) - 1)
        if getattr(root, _USERS) <= 0:
            _forget(folder, package)


def _module_name(package: str, entry: PurePath, *, where: str) -> str:
    parts = entry.with_suffix("").parts
    if any("." in part for part in parts):
        raise BuildError(f"{where} cannot be imported: its path has a dot in a folder or file name")
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join((package, *parts))


def _package(folder: Path, package: str) -> ModuleType:
    """Import the folder itself, running its `__init__.py` if it has one."""
    known = sys.modules.get(package)
    if known is not None and _lies_in(known, folder):
        return known
    if known is not None:
        _forget(folder, package)
    init = folder / "__init__.py"
    if init.is_file():
        spec = importlib.util.spec_from_file_location(
            package, init, submodule_search_locations=[str(folder)]
        )
        assert spec is not None
    else:
        spec = importlib.machinery.ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    if spec.loader is not None:
        spec.loader.exec_module(module)
    return module


def _lies_in(package: ModuleType, folder: Path) -> bool:
    return list(package.__path__) == [str(folder)]


def _forget(folder: Path, package: str) -> None:
    for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
        del sys.modules[name]
    for path in [p for p in sys.path_importer_cache if p.startswith(str(folder))]:
        del sys.path_importer_cache[path]


def _own_traceback(error: BaseException, folder: Path) -> str:
    """Format `error` and what it was raised from, with the frames that lie in `folder`."""
    trace = traceback.TracebackException.from_exception(error)
    for link in _chain(trace):
        own = [frame for frame in link.stack if frame.filename.startswith(str(folder))]
        link.stack = traceback.StackSummary.from_list(own)
    return "".join(trace.format()).replace(f"{folder}/", "")


def _chain(trace: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    yield trace
    for link in (trace.__cause__, trace.__context__):
        if link is not None:
            yield from _chain(link)


def _one_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip().partition("\n")[0]


def _hint(error: BaseException, folder: Path) -> str:
    """Help with the commonest mistake: a sibling file imported as if it lay on sys.path."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return ""
    sibling = error.name.partition(".")[0]
    if (folder / f"{sibling}.py").is_file() or (folder / sibling).is_dir():
        return f" (a solution imports its own files relatively: from . import {sibling})"
    return ""
