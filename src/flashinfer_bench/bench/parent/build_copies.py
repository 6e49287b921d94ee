"""What a candidate's process keeps on disk: a copy of its solution's builds, thrown away when it ends.

Whatever a process writes after it has seen an input would be notes for the next one. So none of it stays. What is
kept is what the process had written when its build was done, before the first input, and what a *rehearsal* left,
a process that is given inputs of no other use::

    <root>/solutions/<hash>/       what is kept, of the solution's content; no candidate writes here
    <root>/processes/<n>/          a process's own copy, its home and its compilers' caches
    <root>/processes/<n>.lock      held by whose process it is
    <root>/rehearsed/<hash>.json   solutions that compile at their first calls, and the workloads rehearsed
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import secrets
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from flashinfer_bench.compile.cache import IN_PROGRESS, solution_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data import Solution

_DRAFT = ".copying-"
_LOCKS = "build_locks"
_RECIPE = "build.ninja"
"""It says where results go by their whole paths: whoever needs it writes it anew, in the folder it is for."""
_NUMBERS = 64
_MOST_BYTES, _MOST_FILES, _DEEPEST = 4 << 30, 50_000, 30
"""More than this is not copied: what is missing is built again by each process."""
_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True)
class BuildCopy:
    """The folders of one process."""

    root: Path
    """What it takes for the build cache."""
    folder: Path
    """Its solution's entry there: the only one."""
    _store: Path
    _lock: FileLock

    def keep(self) -> None:
        """Keep what was built so far. Call it before the process has seen an input that counts."""
        merge(self.folder, self._store)

    def has_grown(self) -> bool:
        """Tell whether there is more than is kept: something was compiled at a first call."""
        return any(_missing(self.folder, self._store))

    def discard(self) -> None:
        """Throw the copy away; the process is gone."""
        shutil.rmtree(self.root, ignore_errors=True)
        self._lock.release()


def take(cache_root: Path, solution: Solution) -> BuildCopy:
    """Make a copy of what is kept of a solution's builds, in a folder that no other process has.

    A solution has a number of its own, which it gets unless that is taken: compilers that note where their files lie
    find them there again.
    """
    parent = cache_root / "processes"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = solution_folder(cache_root, solution)
    own = int(store.name, 16) % _NUMBERS
    for number in itertools.count(own):
        lock = FileLock(parent / f"{number}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        root = parent / str(number)
        shutil.rmtree(root, ignore_errors=True)  # of a benchmark that was killed
        folder = solution_folder(root, solution)
        folder.mkdir(mode=0o700, parents=True)
        merge(store, folder)
        return BuildCopy(root, folder, store, lock)
    raise AssertionError("unreachable")


class Rehearsals:
    """Which solutions compile at their first calls, and on which workloads they have done so."""

    def __init__(self, cache_root: Path) -> None:
        self._folder = cache_root / "rehearsed"
        self._cache_root = cache_root

    def is_due(self, solution: Solution, workload: str) -> bool:
        """Tell whether a process of this solution compiled late before, and was not rehearsed on the workload."""
        done = self._done(solution)
        return done is not None and workload not in done

    def note(self, solution: Solution, *workloads: str) -> None:
        """Note that a solution compiles at first calls, and where that is done."""
        file = self._file(solution)
        done = sorted({*(self._done(solution) or ()), *workloads})
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        draft.write_text(json.dumps(done), encoding="utf-8")
        draft.rename(file)

    def _done(self, solution: Solution) -> list[str] | None:
        try:
            return list(json.loads(self._file(solution).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    def _file(self, solution: Solution) -> Path:
        return self._folder / f"{solution_folder(self._cache_root, solution).name}.json"


def merge(source: Path, target: Path) -> None:
    """Copy what `target` lacks: each file and each new folder appears whole or not at all.

    The source may belong to a hostile process: links are copied as links and never followed, nothing but regular
    files is opened, and there are bounds on how much is copied. Raises `OSError` where the disk is full.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(source, _OPEN | os.O_DIRECTORY)
        try:
            _Copier().merge(descriptor, target, depth=0)
        finally:
            os.close(descriptor)


class _Copier:
    """Copies trees within bounds; what cannot be read, or is too much, is left out."""

    def __init__(self) -> None:
        self._bytes, self._files = _MOST_BYTES, _MOST_FILES

    def merge(self, descriptor: int, target: Path, *, depth: int) -> None:
        for entry in _entries(descriptor):
            place = target / entry.name
            if not os.path.lexists(place):
                self._appear(descriptor, entry.name, place, depth)
            elif entry.is_dir(follow_symlinks=False) and not place.is_symlink() and place.is_dir():
                with _inner(descriptor, entry.name) as inner:
                    self.merge(inner, place, depth=depth + 1)

    def _appear(self, descriptor: int, name: str, place: Path, depth: int) -> None:
        """Copy beside its place, then rename: a copy that is cut short leaves nothing that looks whole."""
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = place.with_name(f"{_DRAFT}{secrets.token_hex(4)}")
        try:
            if self._copy(descriptor, name, draft, depth):
                draft.rename(place)
        except OSError as error:
            if error.errno in _OF_THE_DISK:
                raise
        finally:
            if draft.is_dir() and not draft.is_symlink():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)

    def _copy(self, descriptor: int, name: str, place: Path, depth: int) -> bool:
        self._files -= 1
        if depth > _DEEPEST or self._files < 0:
            return False
        kind = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        if stat.S_ISLNK(kind):
            place.symlink_to(os.readlink(name, dir_fd=descriptor))
            return True
        if stat.S_ISDIR(kind):
            place.mkdir(mode=0o700)
            with _inner(descriptor, name) as inner:
                for entry in _entries(inner):
                    self._copy(inner, entry.name, place / entry.name, depth + 1)
            return True
        return stat.S_ISREG(kind) and self._copy_file(descriptor, name, place)

    def _copy_file(self, descriptor: int, name: str, place: Path) -> bool:
        with os.fdopen(os.open(name, _OPEN, dir_fd=descriptor), "rb") as reader:
            found = os.fstat(reader.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > self._bytes:
                return False
            self._bytes -= found.st_size
            with place.open("xb") as writer:
                while os.sendfile(writer.fileno(), reader.fileno(), None, found.st_size):
                    pass
            place.chmod(stat.S_IMODE(found.st_mode) & 0o700)
            os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))
        return True


def _missing(source: Path, target: Path) -> Iterator[str]:
    """Name files that the target lacks, without opening anything."""
    with contextlib.suppress(OSError, RecursionError), os.scandir(source) as entries:
        for entry in entries:
            place = target / entry.name
            if _is_passing(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _missing(Path(entry.path), place)
            elif not os.path.lexists(place):
                yield entry.path


def _entries(descriptor: int) -> list[os.DirEntry[str]]:
    with os.scandir(descriptor) as entries:
        return [entry for entry in entries if not _is_passing(entry.name)]


@contextlib.contextmanager
def _inner(descriptor: int, name: str) -> Iterator[int]:
    inner = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=descriptor)
    try:
        yield inner
    finally:
        os.close(inner)


def _is_passing(name: str) -> bool:
    """Tell what is of no use to another process: locks, recipes, and what is only being made."""
    return name in {_LOCKS, _RECIPE} or name.startswith((_DRAFT, IN_PROGRESS))
