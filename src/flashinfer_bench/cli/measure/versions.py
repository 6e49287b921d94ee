"""Solutions as people name them: by name, by file or folder, or by a file's version in git."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli.datasets import find_definition, solution_names
from flashinfer_bench.cli.measure.kernel_files import QUOTED_INCLUDE, Hints, solution_from
from flashinfer_bench.data.layout import SOLUTION_TOML, holds_solution
from flashinfer_bench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data import Solution, TraceSet

_GIT_TIMEOUT_S = 30


def find_solution(
    text: str, trace_set: TraceSet, definition_name: str | None, hints: Hints
) -> Solution:
    """Find what NAME, FILE, FOLDER or FILE@REVISION stands for, in this order.

    A kernel file implements the named definition; everything else knows its own.
    """
    named = trace_set.get_solution(text)
    if named is not None:
        return named
    path = Path(text)
    if path.exists():
        return _from_path(path, trace_set, definition_name, hints)
    location, at, revision = text.partition("@")
    if not at:
        raise _nothing_called(text, trace_set)
    with _checked_out(Path(location).resolve(), revision) as copy:
        return _from_path(copy, trace_set, definition_name, hints)


def _from_path(
    path: Path, trace_set: TraceSet, definition_name: str | None, hints: Hints
) -> Solution:
    if path.is_dir():
        from flashinfer_bench.data.folders import pack  # noqa: PLC0415  # pydantic

        if not holds_solution(path):
            raise UsageError(f"{path.name} has no {SOLUTION_TOML}; name the kernel file itself")
        return pack(path)
    if definition_name is None:
        raise UsageError(f"name what {path.name} implements with --definition NAME")
    return solution_from(path, find_definition(trace_set, definition_name), hints)


def _nothing_called(text: str, trace_set: TraceSet) -> UsageError:
    if "/" in text or "." in text:
        return UsageError(f"{text}: no such file or folder, and no solution of that name")
    return UnknownNameError("solution, file or folder", text, solution_names(trace_set))


@contextlib.contextmanager
def _checked_out(path: Path, revision: str) -> Iterator[Path]:
    """Copy a file with its headers, or a folder, as it was in a revision; gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-") as name:
        target = Path(name) / path.name
        is_folder = _git_type(path, revision) == "tree"
        for inner in _folder_files(path, revision) if is_folder else ["."]:
            _write(target / inner, git(path.parent, "show", _at(revision, Path(path.name) / inner)))
        if not is_folder:
            _write_headers(path, revision, target)
        yield target


def _write_headers(path: Path, revision: str, copy: Path) -> None:
    """Copy what a file includes from its own folder, and what that includes in turn."""
    folder, todo, seen = copy.parent, [copy], {copy}
    while todo:
        for name in QUOTED_INCLUDE.findall(todo.pop().read_text(errors="replace")):
            header = (folder / name).resolve()
            if header in seen or not header.is_relative_to(folder.resolve()):
                continue
            seen.add(header)
            with contextlib.suppress(UsageError):  # a header of the system: not in git
                _write(header, git(path.parent, "show", _at(revision, Path(name))))
                todo.append(header)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _folder_files(path: Path, revision: str) -> list[str]:
    listed = git(path.parent, "ls-tree", "-r", "-z", "--name-only", _at(revision, Path(path.name)))
    return [name for name in listed.decode(errors="surrogateescape").split("\0") if name]


def _git_type(path: Path, revision: str) -> str:
    return git(path.parent, "cat-file", "-t", _at(revision, Path(path.name))).decode().strip()


def _at(revision: str, path: Path) -> str:
    return f"{revision}:./{path.as_posix()}"


def git(folder: Path, *arguments: str) -> bytes:
    """Ask git something about the repository that a folder is in."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise UsageError("a version PATH@REVISION needs git, which is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git did not answer within {_GIT_TIMEOUT_S} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        remedy = "; `git fetch` may bring it" if "object name" in said else ""
        raise UsageError(f"git has no such version: {said}{remedy}")
    return done.stdout
